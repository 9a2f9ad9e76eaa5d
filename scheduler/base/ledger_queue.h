// What the core has decided, on its way past the ledger.
//
// Nothing is carried out before its entries are on disk. Where the ledger's disk has no room, what
// was decided waits here in order, and is tried again every second: the core goes on as if messages
// took long. Owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "scheduler/base/effects.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

class LedgerQueue {
 public:
  static constexpr int64_t kAgainMs = 1000;

  // `ledger` must outlive the queue.
  explicit LedgerQueue(Ledger* ledger) : ledger_(*ledger) {}

  // Nothing to do is not kept.
  void Add(SchedulerEffects effects);
  // The next effects whose entries are on disk; nullopt: there are none, or they wait. An error
  // other than want of room is final.
  Result<std::optional<SchedulerEffects>> Next(int64_t now_ms);
  // Gives up what waits.
  void Clear();

  // Why it waits, and since when; nullopt: it does not.
  struct Wait {
    std::string why;
    int64_t since_ms = 0;
    int64_t again_ms = 0;
  };
  const std::optional<Wait>& wait() const { return wait_; }

 private:
  struct Held {
    SchedulerEffects effects;
    bool appended = false;
  };
  Status Write(Held* held);

  Ledger& ledger_;
  std::deque<Held> held_;
  std::optional<Wait> wait_;
};

}  // namespace dslide
