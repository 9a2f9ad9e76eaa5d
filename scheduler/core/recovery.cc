#include "scheduler/core/recovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/plural.h"
#include "scheduler/base/events.h"
#include "scheduler/core/plan_switch.h"
#include "scheduler/core/run_end.h"
#include "scheduler/core/stream_course.h"
#include "scheduler/ledger/contributions.h"

namespace dslide {
namespace {

// The remedy for a loss that rises again and again. Where all workers are the run's own, the rate
// or the data is at fault.
std::string RemedyFor(const RunState& run) {
  const auto is_own = [](const auto& suspect) { return IsOwnKey(suspect.first); };
  const auto& suspects = run.drift->suspects();
  const bool own = !run.inputs.keyed || std::ranges::all_of(suspects, is_own);
  const char* key = own ? ""
                    : suspects.size() < LossOutliers::kLeastContributors
                        ? ", or without one of the contributors (of fewer than three nobody can "
                          "tell which one sends wrong gradients)"
                        : ", or after you have revoked the key that sends wrong gradients";
  return fmt::format(
      "Use --resume with a lower train.learning_rate{}; if the data is at fault (dslide data stats "
      "describes it), begin a new run",
      key);
}

}  // namespace

void Interrupt(RunState* run, int64_t now_ms) {
  if (run->phase == ClusterPhase::kGathering) return;
  if (run->InPass()) {
    if (run->clock.running()) run->clock.Stop(run->roster().cpu_seconds(), now_ms);
    run->checkpointer.GiveUp(now_ms);
    run->generation.CancelChange(run->roster(), &run->out);
  }
  run->Enter(ClusterEvent::kServersLost);
}

void BeginGeneration(RunState* run, const std::vector<SeatedServer>& servers,
                     std::vector<uint16_t> slot_owner, int64_t now_ms) {
  const auto& checkpoint = run->checkpointer.newest();
  if (!checkpoint && !run->inputs.ledger.last_checkpoint.empty()) {
    return Finish(run, CheckpointsAreGone(run->inputs.ledger, run->inputs.checkpoint_directory),
                  run_end::kCheckpointsGone, now_ms);
  }
  const std::string name = checkpoint ? checkpoint->name : "";
  if (run->cluster.seats.live()) {
    const uint64_t batches = run->pass().counted().batches;
    const uint64_t kept = run->checkpointer.saved_batches().value_or(0);
    const uint64_t lost = batches - std::min(batches, kept);
    run->out.Decide({event::kRolledBack,
                     fmt::format("all go back to {}, {} to be done again",
                                 checkpoint ? "checkpoint " + name : "the beginning",
                                 Plural(lost, "batch", "batches")),
                     {{"checkpoint", name}, {"batches", lost}}},
                    now_ms);
  }
  run->generation = Generation(run->checkpointer.Restore());
  run->checkpointer.BeginGeneration();
  if (run->drift) run->drift->BeginGeneration();
  if (run->outliers) run->outliers->BeginGeneration();
  run->balancer.BeginGeneration();
  run->cluster.seats.BeginGeneration(servers, std::move(slot_owner),
                                     run->checkpointer.newest_directory(), &run->cluster.roster,
                                     now_ms);
  run->cluster.seats.SetShape(ShapeToRestore(run));
  run->cluster.seats.SetSettings(run->inputs.settings);
  for (const PlanServer& server : run->plan().servers)
    run->cluster.loads.WarmUp(server.incarnation);
  run->Enter(ClusterEvent::kGenerationBegins);
  const CountedWork& counted = run->pass().counted();
  run->out.Record(
      LedgerRestored{name, counted.epoch, counted.batches, counted.samples, counted.done});
  run->out.Record(LedgerPlanned{run->plan()});
  run->out.SendToSeated(run->roster(), run->plan());
  run->out.Notice({event::kSlotMapBegun,
                   fmt::format("slot plan {}: {} over {}{}", run->plan().version,
                               Plural(run->plan().slot_owner.size(), "slot"),
                               Plural(run->plan().servers.size(), "server"),
                               checkpoint ? fmt::format(", from checkpoint {}", name) : ""),
                   {{"map", run->plan().version},
                    {"servers", run->plan().servers.size()},
                    {"checkpoint", name}}});
}

void GoBack(RunState* run, int64_t now_ms) {
  Interrupt(run, now_ms);
  const auto& checkpoint = run->checkpointer.newest();
  const std::vector<SeatedServer> servers = ChooseServers(
      run->plan(), run->roster(), run->inputs.config.cluster.servers, run->cluster.resting());
  BeginGeneration(run, servers,
                  Place(servers, run->plan(), checkpoint ? &*checkpoint : nullptr,
                        run->cluster.loads, run->inputs.config.cluster.slots)
                      .slot_owner,
                  now_ms);
}

// Servers drop what is not committed when they switch plans.
void TakeStepsBack(RunState* run, int64_t now_ms) {
  if (!run->InPass() || !run->pass().in_steps() || !run->Settled() || !run->AllCommitted() ||
      run->checkpointer.Writing(run->roster())) {  // no plan begins while servers write
    return GoBack(run, now_ms);
  }
  run->generation.CancelChange(run->roster(), &run->out);
  const uint64_t before = run->pass().counted().batches;
  const CountedWork work = run->pass().TakeStepsBack(run->inputs, run->plan().version + 1);
  const uint64_t lost = before - work.batches;
  run->out.Decide({event::kRolledBack,
                   fmt::format("the step in progress is taken back, {} to be done again",
                               Plural(lost, "batch", "batches")),
                   {{"batches", lost}}},
                  now_ms);
  const auto& checkpoint = run->checkpointer.newest();
  run->out.Record(LedgerRestored{checkpoint ? checkpoint->name : "", work.epoch, work.batches,
                                 work.samples, work.done});
  run->out.SyncLedger();
  SwitchTo(run, run->plan(), now_ms);
}

void OnDrift(RunState* run, int64_t now_ms) {
  std::string names;
  for (const auto& [name, batches] : run->drift->suspects()) {
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", name, batches);
  }
  const std::string line =
      fmt::format("the training loss rose from {:.3f} to {:.3f}; batches since, by contributor: {}",
                  run->drift->lowest(), run->drift->loss(), names);
  run->out.Decide(
      {event::kLossRose, line, {{"loss", run->drift->loss()}, {"lowest", run->drift->lowest()}}},
      now_ms);
  if (run->drift->WentBack()) return GoBack(run, now_ms);
  Finish(run, Failed(line + "; going back to the checkpoint has not helped. " + RemedyFor(*run)),
         run_end::kLossRises, now_ms);
}

}  // namespace dslide
