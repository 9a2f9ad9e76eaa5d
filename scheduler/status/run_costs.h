// What a run has done and cost in all lives of its scheduler: what the ledger does not say. It lies
// in the run directory's totals.json, which each life goes on with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/process.h"
#include "scheduler/core/run_status.h"
#include "scheduler/pass/training_stats.h"

namespace dslide {

constexpr char kTotalsName[] = "totals.json";

struct RunCosts {
  TrainingStats work;      // also what a recovery took back
  double lease_bytes = 0;  // of training leases
  double train_seconds = 0;
  double cpu_seconds = 0;        // of all processes
  double train_cpu_seconds = 0;  // of these, until training ended
  uint64_t peak_rss_bytes = 0;   // of the life with the largest sum
  bool whole_run = true;         // false: of an earlier life nothing is known
  // CPU time of members that may outlive the scheduler, by LifeOf() of its incarnation.
  std::map<uint64_t, double> member_cpu_seconds;
};

// totals.json. What is damaged is an error (kBadInput) without the file's name.
std::string FormatCosts(const RunCosts& costs);
Result<RunCosts> ParseCosts(std::string_view text);

// Those of the earlier lives that a run directory has. Without a file, or with a damaged one, which
// is logged: nothing, and whole_run = false if `has_work`.
RunCosts EarlierCosts(const std::string& run_directory, bool has_work);

// Adds this life to the earlier ones. Used by one thread.
class CostMeter {
 public:
  explicit CostMeter(RunCosts earlier)
      : earlier_(std::move(earlier)), awaited_(earlier_.member_cpu_seconds) {}

  // `own`: of the scheduler. REQUIRES a later status of the same life in each call. What members
  // had used in an earlier life is left out of this one, if a call finds them in the roster.
  RunCosts Read(const RunStatus& status, const ProcessUsage& own);

 private:
  RunCosts earlier_;
  std::map<uint64_t, double> awaited_;  // members of earlier lives that this one has not seen
  double known_cpu_seconds_ = 0;        // of those that it has seen, in earlier lives
};

}  // namespace dslide
