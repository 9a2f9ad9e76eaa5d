// The slots of an executor as others copy them: in parts, while training goes on.
//
// A copy lacks all rows at first. A part has rows that it lacks, input rows first; a row that
// changes afterwards is lacking again. Rows that change all the time would be copied over and over,
// so a receiver that asks for cold rows gets no row that changed of late, and none that it
// has had: what is missing then it asks for when the slot has left the model and nothing changes
// any more.
//
// Memory: 4 bits a row of the slots that are being copied, and the last part of each.
// Owned by one executor thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/wire/messages.h"
#include "server/executor/batches/applied_batches.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

class SlotSender {
 public:
  // A row is cold when this many batches have not changed it, or up to twice as many.
  static constexpr uint32_t kRestBatches = 16;
  // When this share of a slot's rows, 1 in ..., had to be copied again, no more are copied while
  // the slot is in the model.
  static constexpr uint32_t kAgainShare = 10;
  static constexpr uint32_t kMaxPartBytes = 8u << 20;

  // The layers must outlive this.
  SlotSender(InputLayer* input, OutputLayer* output);
  ~SlotSender();
  SlotSender(const SlotSender&) = delete;
  SlotSender& operator=(const SlotSender&) = delete;

  // A part of a copy: of max_bytes, but at least one row; the same again for the number that was
  // asked for last. Part 0 begins the copy anew. None: the copy is not that far. REQUIRES a slot
  // that is attached or has departed.
  std::optional<SlotRows> Pull(const SlotPull& pull);

  // The updates of one more batch were made.
  void FollowBatch();

  // The slot has left the model: nothing of it changes any more.
  void Depart(SlotId slot, SlotHistory history);
  bool Departed(SlotId slot) const { return departed_.contains(slot); }
  // Ends the copy of a slot. One that has departed is forgotten.
  void Forget(SlotId slot);
  // Ends the copy of a slot, or the copies of all, that are in the model.
  void ForgetAttached(SlotId slot);
  void ForgetAttached();

  size_t copies() const { return copies_.size(); }

 private:
  // Rows of one layer, by their numbers within the slot.
  struct RowsOfLayer {
    explicit RowsOfLayer(uint32_t rows)
        : lacking(rows, true), sent(rows, false), recent(rows, false), before(rows, false) {}
    bool IsCold(uint32_t row) const {
      return !sent.Has(row) && !recent.Has(row) && !before.Has(row);
    }

    RowSet lacking;
    RowSet sent;
    RowSet recent;       // changed in the present period of kRestBatches
    RowSet before;       // in the one before
    uint32_t again = 0;  // changed since they were sent
  };
  struct Copy {
    std::array<RowsOfLayer, 2> layers;  // by LayerKind
    std::optional<SlotRows> part;       // the last one
  };
  class Follower;

  SlotRows NextPart(const SlotPull& pull, bool cold, const Copy& copy);
  static void NoteSent(const SlotRows& part, Copy* copy) noexcept;
  // Appends rows that are lacking to *part while there is room.
  void AppendRows(LayerKind kind, SlotId slot, bool cold, uint32_t max_bytes,
                  const RowsOfLayer& rows, SlotRows* part);
  Layer& LayerOf(LayerKind kind) {
    return kind == LayerKind::kInput ? input_.layer() : output_.layer();
  }
  void Follow();

  InputLayer& input_;
  OutputLayer& output_;
  std::map<SlotId, Copy> copies_;
  std::map<SlotId, SlotHistory> departed_;
  uint32_t batches_ = 0;                                // of the present period
  std::array<std::unique_ptr<Follower>, 2> followers_;  // by LayerKind
};

}  // namespace dslide
