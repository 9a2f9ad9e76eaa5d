#include "common/idle/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/plural.h"
#include "common/idle/local_time.h"

namespace dslide {
namespace {

constexpr double kMb = 1 << 20;

uint64_t Bytes(uint32_t mb) { return uint64_t{mb} << 20; }

// The others' use, up to twice where processes wait for a CPU. By itself waiting says nothing: this
// worker's own threads wait for each other too.
double Activity(const MachineSample& sample) {
  const double waiting = sample.waiting.value_or(0);
  if (!sample.others_cpu) return waiting;
  return std::max(*sample.others_cpu, std::min(waiting, 2 * *sample.others_cpu));
}

IdleDecision Pause(PauseReason reason, std::string why, int64_t until_unix_s) {
  IdleDecision decision;
  decision.reason = reason;
  decision.why = std::move(why);
  decision.until_unix_s = until_unix_s;
  return decision;
}

}  // namespace

void IdlePolicy::SetRules(IdleConfig rules) {
  rules_ = std::move(rules);
  end_ = {};
}

// Once, because it looks at up to a week of minutes.
int64_t IdlePolicy::EndOf(PauseReason reason, int64_t unix_s,
                          const std::function<int64_t()>& reckon) {
  if (end_.first != reason || end_.second <= unix_s) end_ = {reason, reckon()};
  return end_.second;
}

std::optional<IdleDecision> IdlePolicy::ByClock(int64_t unix_s) {
  if (Contains(rules_.hours, unix_s)) return std::nullopt;
  return Pause(
      PauseReason::kHours, "outside idle.hours = " + rules_.hours.text(),
      EndOf(PauseReason::kHours, unix_s, [&] { return NextChange(rules_.hours, unix_s); }));
}

std::optional<IdleDecision> IdlePolicy::ByResources(const MachineSample& sample, int64_t unix_s) {
  if (sample.on_battery && rules_.on_battery == OnBattery::kPause) {
    return Pause(PauseReason::kBattery, "on battery", 0);
  }
  if (rules_.daily_transfer_mb > 0 && sample.transferred_today >= Bytes(rules_.daily_transfer_mb)) {
    return Pause(PauseReason::kTransfer,
                 fmt::format("{} MB were sent and received today", rules_.daily_transfer_mb),
                 EndOf(PauseReason::kTransfer, unix_s, [&] { return NextDay(unix_s); }));
  }
  const auto resident = static_cast<double>(sample.resident_bytes);
  const auto limit = static_cast<double>(Bytes(rules_.memory_mb));
  memory_full_ = limit > 0 && resident >= (memory_full_ ? kCalm : 1) * limit;
  if (memory_full_) {
    return Pause(
        PauseReason::kMemory,
        fmt::format("{:.0f} MB of memory are in use, of {}", resident / kMb, rules_.memory_mb), 0);
  }
  return std::nullopt;
}

void IdlePolicy::LookAtOthers(const MachineSample& sample, int64_t now_ms) {
  const double limit = 0.01 * rules_.pause_cpu_percent;
  const bool first = !std::exchange(looked_, true);
  activity_ = Activity(sample);
  busy_samples_ = activity_ > limit ? busy_samples_ + 1 : 0;
  const bool calm = activity_ < kCalm * limit;
  if (!calm) quiet_since_ms_.reset();
  if (calm && !quiet_since_ms_) quiet_since_ms_ = now_ms;
  if (rules_.pause_cpu_percent == 0) {
    others_use_ = false;
  } else if (busy_samples_ >= (first ? 1 : kBusySamples)) {
    others_use_ = true;
  } else if (calm && now_ms - *quiet_since_ms_ >= kQuietMs) {
    others_use_ = false;
  }
}

IdleDecision IdlePolicy::Decide(const MachineSample& sample, int64_t unix_s, int64_t now_ms) {
  LookAtOthers(sample, now_ms);  // in any case, so that it is known when the hours begin
  if (auto pause = ByClock(unix_s)) return *std::move(pause);
  if (auto pause = ByResources(sample, unix_s)) return *std::move(pause);
  if (others_use_) {
    const std::string why = quiet_since_ms_
                                ? "others have just used the CPU"
                                : fmt::format("others use {:.0f} % of the CPU", 100 * activity_);
    return Pause(PauseReason::kOthers, why, 0);
  }
  IdleDecision run;
  const double limit = static_cast<double>(Bytes(rules_.memory_mb));
  if (limit > 0 && static_cast<double>(sample.resident_bytes) >= kTightMemory * limit) {
    run.in_flight_cap = 1;
  }
  return run;
}

std::string RulesText(const IdleConfig& rules) {
  std::vector<std::string> parts;
  const auto add = [&](bool given, std::string part) {
    if (given) parts.push_back(std::move(part));
  };
  const char* priorities[] = {"idle", "low", "normal"};
  add(true, fmt::format("{} priority", priorities[static_cast<int>(rules.priority)]));
  add(!rules.hours.always(), "hours " + rules.hours.text());
  add(rules.pause_cpu_percent > 0,
      fmt::format("pauses above {} % CPU use of others", rules.pause_cpu_percent));
  add(rules.on_battery == OnBattery::kPause, "pauses on battery");
  add(rules.cpu_share < 100, fmt::format("{} % of a core", rules.cpu_share));
  add(rules.cores > 0, fmt::format("{} cores", rules.cores));
  add(rules.upload_kbit > 0, fmt::format("sends {} kbit/s", rules.upload_kbit));
  add(rules.download_kbit > 0, fmt::format("receives {} kbit/s", rules.download_kbit));
  add(rules.daily_transfer_mb > 0, fmt::format("{} MB a day", rules.daily_transfer_mb));
  add(rules.memory_mb > 0, fmt::format("{} MB of memory", rules.memory_mb));
  add(rules.disk_mb > 0, fmt::format("{} MB of disk", rules.disk_mb));
  return Joined(parts, ", ");
}

}  // namespace dslide
