// The queue of effects between the core and the shell. It appends the entries of effects to the
// ledger before the shell executes them.
//
// While the ledger's disk has no room, effects wait here in order, and the queue retries the append
// every second. The core sees only slow messages. The scheduler's thread owns the queue.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "scheduler/base/actions.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

class LedgerQueue {
 public:
  static constexpr int64_t kAgainMs = 1000;

  // `ledger` must outlive the queue.
  explicit LedgerQueue(Ledger* ledger) : ledger_(*ledger) {}

  // Appends effects to the queue. Empty effects are dropped.
  void Add(SchedulerEffects effects);
  // Writes the entries of the next effects and returns the effects; nullopt: the queue is empty, or
  // waits for room. An error has another cause than a lack of room, and is final.
  Result<std::optional<SchedulerEffects>> Next(int64_t now_ms);
  // Drops the waiting effects.
  void Clear();

  // Why the queue waits for room, and since when; nullopt: it does not wait.
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
