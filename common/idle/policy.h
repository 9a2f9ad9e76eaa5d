// The owner's policy of a lent machine: whether a worker may compute now, and how much.
//
// A pure core: samples of the machine and the time go in, decisions come out. The rules and their
// names follow the preferences of BOINC (Anderson, "BOINC: A Platform for Volunteer Computing",
// J. Grid Computing 18, 2020, section 2.4):
//
//   hours                        start_hour, end_hour
//   pause_cpu_percent, kQuietMs  suspend_cpu_usage; idle_time_to_run (here of processes)
//   cpu_share, cores             cpu_usage_limit, max_ncpus
//   upload_kbit, download_kbit   max_bytes_sec_up, max_bytes_sec_down
//   daily_transfer_mb            daily_xfer_limit_mb with a period of one day
//   memory_mb, disk_mb           ram_max_used_busy_pct, disk_max_used_gb
//   on_battery                   run_on_batteries
//
// Others use the machine when they use more than pause_cpu_percent of its CPUs. Their use counts up
// to twice where processes wait for a CPU: on a machine that is full 15 % of it can be all that
// somebody gets. A pause begins with the second sample in a row above the limit (the first one
// after the start), so that a short command does not cause one. It ends after kQuietMs below
// kCalm of the limit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/config/config.h"

namespace dslide {

// What a look at the machine shows. Shares are 0 to 1.
struct MachineSample {
  std::optional<double> others_cpu = {};  // of all CPUs, since the look before; nullopt: not known
  std::optional<double> waiting = {};     // of the time in which some process waited for a CPU
  bool on_battery = false;
  uint64_t resident_bytes = 0;     // of this process
  uint64_t transferred_today = 0;  // bytes, both directions, of all of the user's workers
};

enum class PauseReason { kNone, kHours, kBattery, kTransfer, kMemory, kOthers };

struct IdleDecision {
  PauseReason reason = PauseReason::kNone;
  std::string why = {};        // "others use 63 % of the CPU"; empty: it may compute
  int64_t until_unix_s = 0;    // when this may change by the clock; 0: not known
  uint32_t in_flight_cap = 0;  // batches, for lack of memory; 0: none

  bool pauses() const { return reason != PauseReason::kNone; }
};

class IdlePolicy {
 public:
  static constexpr double kCalm = 0.8;         // of a limit; a pause ends below it
  static constexpr int kBusySamples = 2;       // in a row
  static constexpr int64_t kQuietMs = 5000;    // how long others use less before a pause ends
  static constexpr double kTightMemory = 0.9;  // of memory_mb, from which one batch is in flight

  explicit IdlePolicy(IdleConfig rules) : rules_(std::move(rules)) {}

  // To be called about once a second. `unix_s` is the wall clock, `now_ms` one that never goes
  // back.
  IdleDecision Decide(const MachineSample& sample, int64_t unix_s, int64_t now_ms);

  const IdleConfig& rules() const { return rules_; }
  // New rules; what is known of the machine stays.
  void SetRules(IdleConfig rules);

 private:
  std::optional<IdleDecision> ByClock(int64_t unix_s);
  std::optional<IdleDecision> ByResources(const MachineSample& sample, int64_t unix_s);
  void LookAtOthers(const MachineSample& sample, int64_t now_ms);
  // When a pause for this reason ends by the clock; `reckon` is called once for each pause.
  int64_t EndOf(PauseReason reason, int64_t unix_s, const std::function<int64_t()>& reckon);

  IdleConfig rules_;
  bool looked_ = false;
  bool others_use_ = false;
  double activity_ = 0;  // what counts of the others' use, in the last sample
  int busy_samples_ = 0;
  std::optional<int64_t> quiet_since_ms_;
  bool memory_full_ = false;
  std::pair<PauseReason, int64_t> end_;  // of the last pause by the clock, in UTC seconds
};

// "hours 18:00-08:00, at most 50 % of a core, pauses above 25 % CPU use of others": what the rules
// say beyond the defaults, for logs and dslide status --workers.
std::string RulesText(const IdleConfig& rules);

}  // namespace dslide
