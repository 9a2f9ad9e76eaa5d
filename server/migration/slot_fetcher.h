// The copies of slots that a server takes: from other servers, or from one of its own executors to
// another.
//
// A copy is pulled part by part. The next part is asked for when the last one has arrived, so the
// receiver sets the pace; a part without an answer is asked for again. At first only cold rows are
// copied: rows that change with every batch would have to be sent twice. When the plan gives the
// slot to this server, the old owner stops changing it, and the rest is copied.
// Pure: time comes in as milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace dslide {

class SlotFetcher {
 public:
  static constexpr uint32_t kPartBytes = 256 << 10;
  static constexpr size_t kPulling = 8;  // slots at a time
  // The old owner notes which rows change for so long before the first rows are asked for.
  static constexpr int64_t kWatchMs = 500;
  // A part without an answer is asked for again after kAgainMs. The wait doubles with each try,
  // also for the parts that follow, because only the answer to the last request is taken. After an
  // answer the wait falls to kAgainTimes the time that the answer took, but not below kAgainMs.
  static constexpr int64_t kAgainMs = 1000;
  static constexpr int64_t kMostAgainMs = 64000;
  static constexpr int64_t kAgainTimes = 4;
  static constexpr int64_t kRefusedMs = 100;  // after a refusal

  struct Due {
    PlanServer from;
    SlotPull pull;
  };

  // The most bytes a second while only cold rows are copied; 0: no limit.
  void Limit(uint64_t bytes_per_second) { bytes_per_second_ = bytes_per_second; }

  // Begins a copy, if there is none of that slot from that server yet; true if it is new.
  bool Begin(SlotId slot, const PlanServer& from);
  // No row of the slot changes any more at its old owner: everything is copied now.
  void Complete(SlotId slot);
  void GiveUp(SlotId slot) { copies_.erase(slot); }
  void Clear() { *this = SlotFetcher(); }

  // The pulls to be sent now; `from` as given to Begin().
  std::vector<Due> TakeDue(int64_t now_ms);

  // An answer. True: it is the expected part, and the caller puts its rows.
  bool Take(const SlotRows& rows, int64_t now_ms);
  // The source could not answer; the copy begins again a little later.
  void Refused(SlotId slot, int64_t now_ms);

  bool empty() const { return copies_.empty(); }
  std::vector<SlotId> slots() const;
  std::optional<PlanServer> SourceOf(SlotId slot) const;
  bool AllColdThere() const;  // all cold rows of all copies have arrived
  bool AllThere() const;      // all rows of all copies have arrived
  uint64_t BytesOf(SlotId slot) const { return copies_.at(slot).bytes; }
  // Of the slot's rows, each once.
  uint64_t ContentOf(SlotId slot) const { return copies_.at(slot).content; }
  uint64_t bytes() const { return bytes_; }  // of rows taken since Clear()
  uint64_t left_bytes() const;               // still to be copied, estimated by the mean of a row

 private:
  struct Copy {
    void Count(const SlotRows& taken);

    PlanServer from;
    uint32_t part = 0;  // the next one
    bool cold = true;
    bool cold_complete = false;  // all cold rows are here
    bool there = false;
    bool asked = false;  // for `part`
    bool asked_cold = true;
    int64_t again_ms = kAgainMs;
    int64_t next_ms = 0;
    int64_t asked_ms = 0;
    uint32_t left = 0;  // rows
    uint64_t rows = 0;
    uint64_t bytes = 0;
    uint64_t content = 0;
    std::array<std::vector<bool>, 2> seen = {};  // rows of the input and the output layer
  };

  std::map<SlotId, Copy> copies_;
  uint64_t bytes_per_second_ = 0;
  int64_t not_before_ms_ = 0;  // by the limit
  uint64_t bytes_ = 0;
};

}  // namespace dslide
