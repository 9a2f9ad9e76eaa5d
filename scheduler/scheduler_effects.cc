// SchedulerShell writes the ledger entries of effects, then executes the effects.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/failpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/stored_ranking.h"
#include "common/run/slot_plan.h"
#include "scheduler/base/events.h"
#include "scheduler/scheduler_shell.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// A finished run ends if the ledger has waited for room for kLedgerPatienceMs, and a run that was
// asked to stop after the shorter kStopPatienceMs.
constexpr int64_t kLedgerPatienceMs = 600'000;
constexpr int64_t kStopPatienceMs = 20'000;

// Whether a plan switch is among the entries: a plan that continues a generation.
bool SwitchesPlan(const std::vector<LedgerEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const LedgerEntry& entry) {
    const auto* planned = std::get_if<LedgerPlanned>(&entry);
    return planned != nullptr && GenerationOf(planned->plan) != planned->plan.version;
  });
}

}  // namespace

// While the ledger waits for room, a stop ends the run at once, because the ledger could not record
// a checkpoint.
void SchedulerShell::RequestStop() {
  const int64_t now_ms = clock_.Millis();
  if (!stop_wanted_ms_) stop_wanted_ms_ = now_ms;
  if (!ledger_queue_.wait()) return Apply(core_.RequestStop(now_ms));
  GiveUpLedger();
  CarryOut(core_.StopWithoutLedger(now_ms));
}

void SchedulerShell::GiveUpLedger() {
  ledger_queue_.Clear();
  said_that_ledger_waits_ = false;
}

void SchedulerShell::Apply(SchedulerCore::Effects effects) {
  for (LedgerEntry& entry : effects.ledger) {
    if (auto* counted = std::get_if<LedgerCounted>(&entry)) {
      counted->day = DayOf(SecondsSince1970());
    }
  }
  if (ledger_queue_.wait()) SendIndependent(&effects);
  ledger_queue_.Add(std::move(effects));
  DrainLedgerQueue();
}

void SchedulerShell::DrainLedgerQueue() {
  const int64_t now_ms = clock_.Millis();
  while (true) {
    Result<std::optional<SchedulerCore::Effects>> next = ledger_queue_.Next(now_ms);
    const bool finished = core_.phase() == RunPhase::kFinished;
    const int64_t patience_ms = stop_wanted_ms_ ? kStopPatienceMs : kLedgerPatienceMs;
    const bool too_long =
        ledger_queue_.wait() && (finished || stop_wanted_ms_) &&
        now_ms - std::max(ledger_queue_.wait()->since_ms, stop_wanted_ms_.value_or(0)) >
            patience_ms;
    if (next.ok() && too_long && !finished) {
      GiveUpLedger();
      return CarryOut(core_.StopWithoutLedger(now_ms));
    }
    if (!next.ok() || too_long) {
      const Status failed = next.ok() ? Failed(ledger_queue_.wait()->why) : next.error();
      GiveUpLedger();
      return CarryOut(core_.OnLedgerFailure(failed, now_ms));
    }
    if (!*next) break;
    CarryOut(**std::move(next));
  }
  const bool waits = ledger_queue_.wait().has_value();
  if (waits == std::exchange(said_that_ledger_waits_, waits)) return;
  reporter_.Notice({event::kLedgerWaits,
                    waits ? ledger_queue_.wait()->why +
                                "; training waits until there is room; a signal stops the run at "
                                "once"
                          : "the ledger's disk has room again; training continues",
                    {{"waits", waits}}});
}

// While other messages wait for the ledger, sends the replies that depend on no ledger entry: to
// heartbeats and to observers, and refusals. Members would otherwise consider the scheduler dead. A
// plan without an entry repeats a plan that waits; the member asks again with its next message, so
// it is dropped, and the queue does not grow with time. A Shutdown message waits too.
void SchedulerShell::SendIndependent(SchedulerCore::Effects* effects) {
  const auto is_held = [&](const auto& out) {
    const Member* member = core_.roster().At(out.to);
    const bool observes = member != nullptr && member->role == Role::kObserver;
    return std::holds_alternative<Shutdown>(*out.body) ||
           (!observes && !std::holds_alternative<HeartbeatReply>(*out.body) &&
            !std::holds_alternative<ErrorReply>(*out.body));
  };
  if (effects->ledger.empty()) {
    std::erase_if(effects->send,
                  [](const auto& out) { return std::holds_alternative<Plan>(*out.body); });
  }
  const auto free = std::stable_partition(effects->send.begin(), effects->send.end(), is_held);
  std::for_each(free, effects->send.end(), [&](auto& out) { Send(std::move(out)); });
  effects->send.erase(free, effects->send.end());
  for (auto& out : std::exchange(effects->status_wanted, {})) {
    out.body = Body(StatusReply{reporter_.RecentStatus()});
    Send(std::move(out));
  }
}

void SchedulerShell::Send(SchedulerCore::Effects::Outgoing out) {
  const Message message{{run_, incarnation_, next_sequence_++, out.reply_to, core_.plan_version()},
                        std::move(out.body).Take()};
  Bytes bytes = Encode(message, FixedPrecision(core_.run().config.cluster.wire));
  core_.CountSent(message.body, bytes.size());
  if (access_ && std::holds_alternative<JoinReply>(message.body)) {
    if (const Member* member = core_.roster().At(out.to)) SendAccess(*member);
  }
  socket_.Send(out.to, std::move(bytes));
}

// Executes effects whose entries are in the ledger.
void SchedulerShell::CarryOut(SchedulerCore::Effects effects) {
  for (const LedgerEntry& entry : effects.ledger) {
    if (const auto* counted = std::get_if<LedgerCounted>(&entry)) reporter_.OnCounted(*counted);
  }
  if (effects.epoch_done) PassFailpoint(Failpoint::kSchedulerAfterEpoch);
  const bool switches_plan = SwitchesPlan(effects.ledger);
  if (switches_plan) PassFailpoint(Failpoint::kSchedulerBeforePlanSwitch);
  for (auto& out : effects.status_wanted) {
    out.body = Body(StatusReply{reporter_.RecentStatus()});
    effects.send.push_back(std::move(out));
  }
  for (auto& out : effects.send) Send(std::move(out));
  if (switches_plan) PassFailpoint(Failpoint::kSchedulerAfterPlanSwitch);
  for (const Admission::Probe& probe : effects.probes) SendProbe(probe);
  for (const SchedulerEffects::Quarantine& one : effects.quarantine) {
    if (access_) access_->Quarantine(one.member, one.accusers, SecondsSince1970());
    access_read_ms_ = 0;
  }
  for (const std::string& server : effects.lost_servers) reporter_.OnLost(server);
  for (const Event& event : effects.tunings) terminal_.Debug(event);
  if (effects.epoch_done) reporter_.OnEpoch(*effects.epoch_done);
  for (const EvaluationResult& result : effects.evaluations) reporter_.OnEvaluation(result);
  for (const Event& event : effects.notices) reporter_.Notice(event);
  if (!effects.examples.empty()) reporter_.OnExamples(effects.examples);
  if (effects.ranking) {
    // If this process is killed here, the next one runs the hook for the checkpoint again.
    std::error_code ignored;
    if (hook_.exists()) fs::remove(fs::path(run_directory_) / kHookDoneName, ignored);
    const Status stored =
        StoreRanking(core_.run().checkpoint_directory, effects.ranking->adjustment);
    if (!stored.ok()) reporter_.Notice({event::kRankingFailed, stored.error().message});
    hook_.Repeat(effects.ranking->directory);
  }
  if (effects.manifest) {
    const fs::path directory = fs::path(core_.run().checkpoint_directory) / effects.manifest->name;
    std::error_code error;
    fs::create_directories(directory, error);
    effects.manifest->written_s = static_cast<uint64_t>(SecondsSince1970());
    const Status written = PassFailpoint(Failpoint::kSchedulerBeforeManifest)
                               ? Failed("failpoint scheduler.before-manifest")
                               : WriteManifest(directory.string(), *effects.manifest);
    PassFailpoint(Failpoint::kSchedulerAfterManifest);
    if (written.ok()) {
      PruneCheckpoints(core_.run().checkpoint_directory, core_.run().config.checkpoint.keep,
                       core_.HeldCheckpoints());
      reporter_.OnCheckpoint(*effects.manifest);
      hook_.Offer(directory.string());
      ForgetSegments();
    }
    Apply(core_.OnManifest(written, clock_.Millis()));
  }
  if (effects.segment_wanted) {
    segment_wanted_ = *effects.segment_wanted;
    stream_->Want(segment_wanted_);
    TendStream();
  }
}

}  // namespace dslide
