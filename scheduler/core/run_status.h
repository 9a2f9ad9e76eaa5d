// The run as it is at one moment: all that the views (status page, metrics, progress line, summary)
// show of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/wire/messages.h"
#include "scheduler/balance/balancer.h"
#include "scheduler/balance/strategy.h"
#include "scheduler/base/actions.h"
#include "scheduler/base/journal.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/core/run_phase.h"
#include "scheduler/members/roster.h"
#include "scheduler/pass/run_totals.h"
#include "scheduler/pass/training_stats.h"
#include "scheduler/pass/trust_policy.h"

namespace dslide {

struct RunState;

// What a server's reports say.
struct ServerFigures {
  double capacity = 0;       // work per second
  double busy = 0;           // SlotLoads::BusyShare()
  double executor_skew = 1;  // largest over mean work
  uint64_t memory_used = 0;
  uint64_t memory_limit = 0;  // 0: not known
};

// A server's place in the plan.
struct SeatStatus {
  size_t slots = 0;
  double load = 0;      // SlotLoads::MeasuredLoads()
  bool vacant = false;  // its server is not in the roster
};

struct MemberStatus {
  Member member;
  std::optional<size_t> seat;            // servers: index in the plan
  double batches_per_second = 0;         // workers; 0: not known
  std::optional<ServerFigures> figures;  // servers
};

struct RunStatus {
  const RunContext* run = nullptr;  // the core's; it has to outlive the use of this value
  int64_t now_ms = 0;
  int64_t started_ms = 0;  // of this scheduler
  RunPhase phase = RunPhase::kGathering;
  std::string outcome;  // why the run ended early; empty: it did not
  std::string waiting;  // "have 1 of 2 servers, waiting for 1 more" and the like

  // What counts, over the whole run; a recovery takes it back.
  uint32_t epoch = 0;  // in progress, or epochs trained
  uint64_t batches = 0;
  uint64_t samples = 0;
  bool awaits_segment = false;  // of a stream: nothing is trained until more has come
  double progress = 0;          // share of all epochs' batches that count, [0, 1]
  // All work of this life of the scheduler, also what a recovery took back.
  TrainingStats work;
  double lease_bytes_per_sample = 0;                // of training leases
  int64_t training_ms = 0;                          // pauses for checkpoints included
  double training_cpu_seconds = 0;                  // of members
  std::optional<EvaluationResult> last_evaluation;  // on test samples
  std::optional<EvaluationResult> last_held_out;
  std::vector<std::string> choices;  // of settings by this scheduler, a line each
  std::string last_checkpoint;       // directory of the newest complete one; empty: none

  Plan plan;
  uint32_t recoveries = 0;  // of this life
  uint64_t offences = 0;    // of this life, by members
  TrustTotals trust;        // of this life
  MoveTotals moves;
  size_t moving_slots = 0;
  double imbalance = 1;           // largest relative load of a server
  std::vector<SeatStatus> seats;  // [plan.servers]
  Decisions decisions;            // the last of what each member should do
  Journal journal;

  std::vector<MemberStatus> members;  // servers, then workers, in the order in which they joined
  // All members count, also those that left.
  RoleUsage of_servers, of_workers;
  double cpu_seconds = 0;
  uint64_t peak_rss_bytes = 0;

  size_t Count(Role role) const;
  const MemberStatus* Find(Incarnation member) const;  // null: not in the roster
};

RunStatus Describe(const RunState& run, int64_t now_ms);

}  // namespace dslide
