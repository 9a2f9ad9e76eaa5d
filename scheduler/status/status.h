// The content of the status page, made from the run's status.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/checkpoint/checkpoint_hook.h"
#include "scheduler/core/run_status.h"
#include "scheduler/ledger/contributions.h"
#include "scheduler/status/history.h"
#include "scheduler/status/learning_curve.h"
#include "scheduler/status/progress.h"

namespace dslide {

// Whether nothing is trained or evaluated: the run waits for servers or workers. What was measured
// before tells nothing then.
bool Waits(const RunStatus& status);

// What the shell does with checkpoints.
struct CheckpointCare {
  std::optional<CheckpointHook::Figures> hook;  // nullopt: checkpoint.hook is empty
  std::string problem;                          // why no checkpoints are written now; "": they are
};

// What the shell knows besides the core.
struct StatusExtras {
  std::span<const Contributions::Total> contributions = {};  // the greatest first
  std::string few_contributors = {};                         // FewContributorsLine()
  int64_t time_s = 0;                                        // since 1970; 0: not told
  const std::deque<RunEvent>* events = nullptr;
  const CheckpointCare* checkpoints = nullptr;
  std::string version = {};  // of this program; "": not told
  // The public key of a member, as text; "" where members have none.
  std::function<std::string(Incarnation)> key_of = {};
  uint32_t ledger_sync_us = 0;  // that the ledger's last sync took; 0: none yet
};

// The body of /api/status. `curve`: since this scheduler started. kMostContributions of the
// contributions are in it.
constexpr size_t kMostContributions = 100;
constexpr size_t kMostEvents = 60;  // the last ones; /api/history has more
std::string StatusJson(const RunStatus& status, const ProgressMeter::Reading& reading,
                       const LearningCurve& curve, const std::string& line,
                       const StatusExtras& extras = {});

// A line of loads.jsonl: the load of each server.
std::string LoadsRecord(const RunStatus& status, double elapsed_s);

}  // namespace dslide
