// The effects of the core on their way to the shell: the ledger has their entries before the shell
// carries them out.
//
// While the ledger's disk has no room, effects wait here in order, and the queue writes again every
// second. To the core it looks as if messages took long. The scheduler's thread owns the queue.
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
