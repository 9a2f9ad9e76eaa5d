#include "worker/lent_machine.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "common/base/process.h"
#include "common/idle/local_time.h"
#include "common/idle/user_files.h"
#include "common/log/log.h"
#include "worker/events.h"

namespace dslide {
namespace {

constexpr int64_t kSettleMs = 10'000;  // what a killed worker forgets at most
constexpr double kBytesPerKbit = 125;

int64_t UnixSeconds() { return time(nullptr); }

std::string DirectoryOr(const Result<std::string>& found, const char* without) {
  if (found.ok()) return *found;
  LogWarning({event::kHostRecords, fmt::format("{}; {}", found.error().message, without)});
  return "";
}

std::string AccountPath() {
  const std::string directory =
      DirectoryOr(StateDirectory(), "what is done today is forgotten at the end");
  return directory.empty() ? "" : directory + "/" + Account::kFileName;
}

}  // namespace

LentMachine::LentMachine(IdleConfig rules, ReadRules read_rules, const std::string& scheduler)
    : policy_(std::move(rules)),
      read_rules_(std::move(read_rules)),
      directory_(
          DirectoryOr(RuntimeDirectory(), "dslide status --workers will not show this worker")),
      publisher_(directory_),
      account_(AccountPath()),
      cpu_s_(UsageOfThisProcess().cpu_seconds) {
  shown_.scheduler = scheduler;
  shown_.state = "starting";
  shown_.since_unix_s = UnixSeconds();
  SetRates();
}

LentMachine::~LentMachine() {
  const int64_t now_ms = MonotonicMillis();
  if (const auto line = log_.Flush(now_ms)) LogInfo(*line);
  Settle(now_ms, /*at_once=*/true);
}

void LentMachine::SetRates() {
  const IdleConfig& rules = policy_.rules();
  cpu_.SetRate(rules.cpu_share == 100 ? 0 : 0.01 * rules.cpu_share);
  upload_.SetRate(kBytesPerKbit * rules.upload_kbit);
  download_.SetRate(kBytesPerKbit * rules.download_kbit);
  shown_.policy = RulesText(rules);
  shown_.upload_kbit = rules.upload_kbit;
  shown_.download_kbit = rules.download_kbit;
  shown_.daily_transfer_mb = rules.daily_transfer_mb;
}

// CPU time of this process and, while they are there, of the user's other lent workers.
double LentMachine::OwnCpuSeconds() {
  std::map<int, double> seen;
  for (const PublishedWorker& worker : ReadPublished(directory_)) {
    if (worker.pid == getpid()) continue;
    const std::optional<ProcessTimes> times = TimesOf(worker.pid);
    if (!times) continue;
    seen[worker.pid] = times->cpu_s;
    const auto before = lent_cpu_s_.find(worker.pid);
    if (before != lent_cpu_s_.end()) others_lent_cpu_s_ += times->cpu_s - before->second;
  }
  lent_cpu_s_ = std::move(seen);
  return UsageOfThisProcess().cpu_seconds + others_lent_cpu_s_;
}

const IdleDecision& LentMachine::Look(int64_t now_ms) {
  if (const auto line = log_.Due(now_ms)) LogInfo(*line);
  if (looks_ > 0 && now_ms - looked_ms_ < kLookMs) return decision_;
  looked_ms_ = now_ms;
  MachineSample sample = reader_.Read(OwnCpuSeconds(), 1000 * now_ms);
  Settle(now_ms, /*at_once=*/looks_ == 0);
  const Deeds since{0, 0, done_.bytes_sent - settled_.bytes_sent,
                    done_.bytes_received - settled_.bytes_received};
  sample.transferred_today = totals_.today.transferred() + since.transferred();
  if (shown_.state == "running") Publish();
  if (++looks_ > 1) decision_ = policy_.Decide(sample, UnixSeconds(), now_ms);
  return decision_;
}

bool LentMachine::MayBegin(int64_t now_us) {
  const double cpu_s = UsageOfThisProcess().cpu_seconds;
  cpu_.Take(cpu_s - cpu_s_);
  done_.cpu_s += cpu_s - cpu_s_;
  cpu_s_ = cpu_s;
  // All three, so that each is filled.
  const bool cpu = cpu_.MayBegin(now_us);
  const bool upload = upload_.MayBegin(now_us);
  const bool download = download_.MayBegin(now_us);
  return cpu && upload && download;
}

void LentMachine::CountSent(size_t bytes) {
  done_.bytes_sent += bytes;
  upload_.Take(static_cast<double>(bytes));
}

void LentMachine::CountReceived(size_t bytes) {
  done_.bytes_received += bytes;
  download_.Take(static_cast<double>(bytes));
}

// Brings the account and the published state up to date, every ten seconds or at once.
void LentMachine::Settle(int64_t now_ms, bool at_once) {
  if (!at_once && now_ms - settled_ms_ < kSettleMs) return;
  settled_ms_ = now_ms;
  const Deeds since{done_.samples - settled_.samples, done_.cpu_s - settled_.cpu_s,
                    done_.bytes_sent - settled_.bytes_sent,
                    done_.bytes_received - settled_.bytes_received};
  const Result<Totals> totals = account_.Add(since, LocalTimeAt(UnixSeconds()).date);
  settled_ = done_;
  if (totals.ok()) {
    totals_ = *totals;
  } else {
    totals_.Add(since, LocalTimeAt(UnixSeconds()).date);  // the caps hold without the file
  }
  if (!totals.ok()) WarnOnce(totals.error());
  Publish();
}

void LentMachine::Publish() {
  shown_.done = done_;
  const Status published = publisher_.Publish(shown_);
  if (!published.ok()) WarnOnce(published.error());
}

void LentMachine::WarnOnce(const Error& error) {
  if (!std::exchange(warned_, true)) LogWarning({event::kHostRecords, error.message});
}

void LentMachine::SetState(const std::string& state, const std::string& name, int64_t now_ms) {
  const std::string why = state == "paused" ? decision_.why : "";
  const int64_t until = state == "paused" ? decision_.until_unix_s : 0;
  // The words of a reason may have figures, which change all the time.
  const PauseReason reason = state == "paused" ? decision_.reason : PauseReason::kNone;
  if (state == shown_.state && (name.empty() || name == shown_.name) &&
      until == shown_.until_unix_s && reason == shown_reason_) {
    return;
  }
  rested_ |= state != "running" && shown_.state == "running";
  rested_ |= state == "paused" || state == "waiting";
  if (state != shown_.state) shown_.since_unix_s = UnixSeconds();
  shown_.state = state;
  if (!name.empty()) shown_.name = name;
  shown_.why = why;
  shown_reason_ = reason;
  shown_.until_unix_s = until;
  Settle(now_ms, /*at_once=*/true);
}

void LentMachine::Say(Event event, int64_t now_ms) {
  if (!rested_) return LogInfo(event);
  const auto admitted = log_.AdmitState(std::move(event), now_ms);
  if (admitted) LogInfo(*admitted);
}

void LentMachine::Reload() {
  if (!read_rules_) {
    return LogInfo({event::kHostPolicy, "SIGHUP: there is no file to read again (--config FILE)"});
  }
  tzset();
  Result<IdleConfig> rules = read_rules_();
  if (!rules.ok()) {
    return LogWarning({event::kHostPolicy, rules.error().message + "; the policy stays as it was"});
  }
  const IdleConfig& now = policy_.rules();
  if (rules->cores != now.cores || rules->priority != now.priority) {
    LogWarning({event::kHostPolicy,
                "idle.cores and idle.priority count from the next start of this worker on"});
    rules->cores = now.cores;
    rules->priority = now.priority;
  }
  policy_.SetRules(*std::move(rules));
  SetRates();
  LogInfo({event::kHostPolicy, "the policy now: " + shown_.policy});
  Publish();
  looked_ms_ = 0;  // decide by it at once
}

}  // namespace dslide
