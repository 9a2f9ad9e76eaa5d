// SchedulerShell writes the ledger entries of effects, then executes the effects.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/failpoint.h"
#include "common/checkpoint/layout.h"
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

// Whether a message depends on no ledger entry.
bool IsIndependent(const action::Send& send, const Roster& roster) {
  if (std::holds_alternative<Shutdown>(*send.body)) return false;
  const Member* member = roster.At(send.to);
  const bool observes = member != nullptr && member->role == Role::kObserver;
  return observes || std::holds_alternative<HeartbeatReply>(*send.body) ||
         std::holds_alternative<ErrorReply>(*send.body);
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
  Enqueue(std::move(effects));
  DrainLedgerQueue();
}

void SchedulerShell::Enqueue(SchedulerCore::Effects effects) {
  for (LedgerEntry& entry : effects.ledger) {
    if (auto* counted = std::get_if<LedgerCounted>(&entry)) {
      counted->day = DayOf(SecondsSince1970());
    }
  }
  if (ledger_queue_.wait()) SendIndependent(&effects);
  ledger_queue_.Add(std::move(effects));
}

void SchedulerShell::DrainLedgerQueue() {
  while (true) {
    const int64_t now_ms = clock_.Millis();
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
    if (manifest_written_) {
      const Status written = *std::exchange(manifest_written_, std::nullopt);
      Enqueue(core_.OnManifest(written, clock_.Millis()));
    }
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
  const bool repeats_plan = effects->ledger.empty();
  for (SchedulerAction& one : std::exchange(effects->actions, {})) {
    auto* send = std::get_if<action::Send>(&one);
    if (const auto* status = std::get_if<action::SendStatus>(&one)) {
      Execute(*status);
    } else if (send != nullptr && IsIndependent(*send, core_.roster())) {
      Execute(std::move(*send));
    } else if (send == nullptr || !repeats_plan || !std::holds_alternative<Plan>(*send->body)) {
      effects->actions.push_back(std::move(one));
    }
  }
}

// Executes effects whose entries are in the ledger.
void SchedulerShell::CarryOut(SchedulerCore::Effects effects) {
  for (const LedgerEntry& entry : effects.ledger) {
    if (const auto* counted = std::get_if<LedgerCounted>(&entry)) reporter_.OnCounted(*counted);
    if (std::holds_alternative<LedgerEpochDone>(entry)) {
      PassFailpoint(Failpoint::kSchedulerAfterEpoch);
    }
  }
  const bool switches_plan = SwitchesPlan(effects.ledger);
  if (switches_plan) PassFailpoint(Failpoint::kSchedulerBeforePlanSwitch);
  for (SchedulerAction& action : effects.actions) {
    std::visit([this](auto& one) { Execute(std::move(one)); }, action);
  }
  if (switches_plan) PassFailpoint(Failpoint::kSchedulerAfterPlanSwitch);
}

void SchedulerShell::Execute(action::Send send) {
  const Message message{{run_, incarnation_, next_sequence_++, send.reply_to, core_.plan_version()},
                        std::move(send.body).Take()};
  Bytes bytes = Encode(message, FixedPrecision(core_.run().config.cluster.wire));
  core_.CountSent(message.body, bytes.size());
  if (access_ && std::holds_alternative<JoinReply>(message.body)) {
    if (const Member* member = core_.roster().At(send.to)) SendAccess(*member);
  }
  socket_.Send(send.to, std::move(bytes));
}

void SchedulerShell::Execute(const action::SendStatus& send) {
  Execute(action::Send{send.to, Body(StatusReply{reporter_.RecentStatus()}), send.reply_to});
}

void SchedulerShell::Execute(const action::Log& log) { reporter_.Notice(log.event); }

void SchedulerShell::Execute(const action::LogDebug& log) { terminal_.Debug(log.event); }

void SchedulerShell::Execute(const action::CountLostServer& lost) { reporter_.OnLost(lost.name); }

void SchedulerShell::Execute(const action::ShowEpoch& epoch) { reporter_.OnEpoch(epoch.epochs); }

void SchedulerShell::Execute(action::ShowEvaluation evaluation) {
  EvaluationResult& result = evaluation.result;
  if (result.set == EvaluationSet::kTest) ranked_test_ = std::exchange(result.ranked, {});
  reporter_.OnEvaluation(result);
  if (!evaluation.examples.empty()) reporter_.OnExamples(evaluation.examples);
}

void SchedulerShell::Execute(action::StoreRanking ranking) {
  // If this process is killed here, the next one runs the hook for the checkpoint again.
  std::error_code ignored;
  if (hook_.exists()) fs::remove(fs::path(run_directory_) / kHookDoneName, ignored);
  const Status stored = dslide::StoreRanking(core_.run().checkpoint_directory, ranking.adjustment);
  if (!stored.ok()) reporter_.Notice({event::kRankingFailed, stored.error().message});
  ranked_checkpoint_ = ranking.newest_checkpoint;
  usual_weight_ = ranking.adjustment.usual;
  // A reranker of earlier epochs was fitted on other logits.
  reranker_.reset();
  fs::remove(fs::path(core_.run().checkpoint_directory) / kRerankerName, ignored);
  if (reranking_ != nullptr) {
    AdjustLogits(*core_.run().label_logs, usual_weight_, &ranking.ranked);
    reranking_->Begin(std::move(ranking.ranked));
  }
  const bool fits = reranking_ != nullptr && reranking_->in_progress();
  if (!fits) hook_.Repeat(ranked_checkpoint_);
}

void SchedulerShell::StoreReranker() {
  if (reranking_ == nullptr) return;
  const std::optional<Result<FittedReranker>> fit = reranking_->Collect();
  if (!fit) return;
  if (fit->ok()) {
    const FittedReranker& fitted = **fit;
    reranker_ = fitted.reranker;
    reporter_.Notice({event::kReranked,
                      HeldOutText(fitted),
                      {{"set", std::string("held_out")},
                       {"p_at_1", fitted.reranked.precision[0]},
                       {"ndcg_at_5", fitted.reranked.ndcg[4]}}});
  }
  const Status stored = !fit->ok() ? Status(fit->error())
                        : reranker_ == nullptr
                            ? Status()
                            : StoreRerankerIn(core_.run().checkpoint_directory, *reranker_);
  if (!stored.ok()) reporter_.Notice({event::kRankingFailed, stored.error().message});
  hook_.Repeat(ranked_checkpoint_);
}

void SchedulerShell::MeasureReranker() {
  if (reranker_ == nullptr || ranked_test_.empty()) return;
  AdjustLogits(*core_.run().label_logs, usual_weight_, &ranked_test_);
  const auto [metrics, model] = reranking_->MeasureTest(*reranker_, ranked_test_);
  reporter_.Notice({event::kReranked,
                    TestText(metrics, model),
                    {{"set", std::string("test")},
                     {"p_at_1", metrics.precision[0]},
                     {"ndcg_at_5", metrics.ndcg[4]}}});
}

void SchedulerShell::Execute(action::WriteManifest write) {
  Manifest& manifest = write.manifest;
  const fs::path directory = fs::path(core_.run().checkpoint_directory) / manifest.name;
  std::error_code error;
  fs::create_directories(directory, error);
  manifest.written_s = static_cast<uint64_t>(SecondsSince1970());
  manifest_written_ = PassFailpoint(Failpoint::kSchedulerBeforeManifest)
                          ? Failed("failpoint scheduler.before-manifest")
                          : dslide::WriteManifest(directory.string(), manifest);
  PassFailpoint(Failpoint::kSchedulerAfterManifest);
  if (!manifest_written_->ok()) return;
  PruneCheckpoints(core_.run().checkpoint_directory, core_.run().config.checkpoint.keep,
                   core_.HeldCheckpoints());
  reporter_.OnCheckpoint(manifest);
  hook_.Offer(directory.string());
  ForgetSegments();
}

void SchedulerShell::Execute(const action::FetchSegment& fetch) {
  segment_wanted_ = fetch.number;
  stream_->Want(segment_wanted_);
}

void SchedulerShell::Execute(const action::QuarantineKey& quarantine) {
  if (access_) access_->Quarantine(quarantine.member, quarantine.accusers, SecondsSince1970());
  access_read_ms_ = 0;
}

// Any server answers it, whatever plan it has.
void SchedulerShell::Execute(const action::Probe& probe) {
  const Message request{{run_, incarnation_, next_sequence_++, 0, 0}, StatusRequest{}};
  std::optional<CurvePeer> keys;
  if (access_) {
    const std::optional<PublicKey> key = access_->holder().KeyOf(probe.server);
    if (!key) return;  // revoked meanwhile
    keys = CurvePeer{access_->own(), *key};
  }
  prober_.Send(probe.server, probe.address, keys, Encode(request, WirePrecision::kFp32));
}

}  // namespace dslide
