// Sends an executor's slots to the executors that copy them: in parts, while training goes on.
//
// A copy lacks all rows at first. A part has rows that the copy lacks, input rows first; a row that
// changes afterwards is lacking again. Rows that change with every batch would be sent again and
// again. So a receiver that asks for cold rows gets no row that changed lately, and no row twice.
// It asks for the rest when the slot has left the model and its rows do not change any more.
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
  // When 1 of this many of a slot's rows had to be sent again, no more are sent while the slot is
  // in the model.
  static constexpr uint32_t kAgainShare = 10;
  static constexpr uint32_t kMaxPartBytes = 8u << 20;

  // The layers must outlive this.
  SlotSender(InputLayer* input, OutputLayer* output);
  ~SlotSender();
  SlotSender(const SlotSender&) = delete;
  SlotSender& operator=(const SlotSender&) = delete;

  // A part of a copy, of at most max_bytes, but at least one row. The last part may be asked for
  // again and is the same. Part 0 begins the copy from the start. None: this part is not the next
  // one. REQUIRES a slot that is attached or has departed.
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
