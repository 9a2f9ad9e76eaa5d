#include "scheduler/core/run_state.h"

#include <utility>

#include "common/base/check.h"
#include "common/config/schedule.h"
#include "common/run/step.h"

namespace dslide {
namespace {

// Servers of an earlier life may hold its state, unless they would work by another configuration.
bool ServersHoldState(const RunInputs& inputs) {
  return inputs.ledger.live &&
         inputs.ledger.run.config == FormatConfig(WithNominalSizes(inputs.base));
}

RunInputs WithChosenSettings(RunInputs inputs) {
  inputs.base = inputs.config;
  UseSettings(inputs.settings, &inputs);
  return inputs;
}

CountedWork WorkIn(const LedgerState& ledger) {
  return {ledger.epoch, ledger.batches, ledger.samples, ledger.done};
}

}  // namespace

void WatchLosses(RunState* run) {
  const RunContext& inputs = run->inputs;
  if (!DriftAlarm::Watches(inputs.config)) return;
  run->drift.emplace(BatchesPerEpoch(inputs.config.train, inputs.PassSamples()),
                     inputs.config.model.labels);
  run->outliers.emplace(inputs.config.model.labels);
}

void UseSettings(Overrides settings, RunContext* run) {
  run->settings = std::move(settings);
  run->config = run->base;
  if (run->settings.empty()) return;
  Result<Config> config = LoadConfig("", run->settings, run->base);
  DSLIDE_CHECK(config.ok());
  run->config = *std::move(config);
}

RunState::RunState(RunInputs run_inputs, int64_t now_ms)
    : inputs(WithChosenSettings(std::move(run_inputs))),
      inverse_propensities(inputs.inverse_propensities.known()
                               ? std::move(inputs.inverse_propensities)
                               : InversePropensities(*inputs.train)),
      started_ms(now_ms),
      cluster(inputs, ServersHoldState(inputs), now_ms),
      balancer(inputs.config),
      checkpointer(inputs),
      generation(cluster.seats.live() ? WorkIn(inputs.ledger) : checkpointer.Restore()),
      out(inputs.ledger.entries) {
  WatchLosses(this);
  for (LedgerHeldOut& e : inputs.ledger.held_out) held_out.Add(e.epochs, std::move(e.ndcg));
  const std::string config = FormatConfig(WithNominalSizes(inputs.base));
  if (!inputs.ledger.opened || inputs.ledger.run.config != config) {
    out.Record(LedgerOpened{inputs.run, config, inputs.EpochSamples(), inputs.train_checksum,
                            inputs.open_keys});
  }
}

bool RunState::AllCommitted() const {
  return !Pass::HasSteps(inputs) || pass().AllCommitted(cluster.Owners());
}

RunPhase RunState::Phase() const {
  switch (phase) {
    case ClusterPhase::kGathering:
      return RunPhase::kGathering;
    case ClusterPhase::kLoading:
      return RunPhase::kLoading;
    case ClusterPhase::kReady:
      return pass().evaluating() ? RunPhase::kEvaluating : RunPhase::kTraining;
    case ClusterPhase::kFinished:
      return RunPhase::kFinished;
  }
  return RunPhase::kFinished;
}

void RunState::CheckInvariants() const {
  if (Finished()) return;  // nothing is decided any more
  cluster.seats.CheckInvariants(roster(), inputs.config.cluster.slots);
  pass().CheckInvariants(inputs);
  change().CheckInvariants();
  checkpointer.CheckInvariants();
  balancer.CheckInvariants();
  advisor.CheckInvariants();

  DSLIDE_CHECK(cluster.seats.live() || phase == ClusterPhase::kGathering);
  DSLIDE_CHECK(!InPass() || pass().begun());
  DSLIDE_CHECK(phase != ClusterPhase::kLoading || !pass().begun());
  DSLIDE_CHECK(!clock.running() || Training());
  DSLIDE_CHECK(!change().has_wave() || InPass());
  DSLIDE_CHECK(!change().switching() || cluster.seats.Switched());
  DSLIDE_CHECK(!change().switching() || !checkpointer.round());
  DSLIDE_CHECK(!checkpointer.round() || (InPass() && !change().paused()));
}

}  // namespace dslide
