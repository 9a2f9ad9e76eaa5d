#include "scheduler/resume.h"

#include <fmt/core.h>

#include "common/run/step.h"
#include "scheduler/ledger/orphans.h"

namespace dslide {
namespace {

// What must be as it was when `checkpoint` was written: what a stored row holds, and which batches
// there are.
Status CheckUnchanged(const RunInputs& inputs, const Manifest& manifest, const Config& stored,
                      const std::string& checkpoint) {
  const Config& config = inputs.config;
  const auto differs = [&](const char* key, auto now, auto then) {
    return BadInput(fmt::format("--resume: {} is {} but {} in checkpoint {}; it cannot change", key,
                                now, then, checkpoint));
  };
  if (manifest.train_samples != inputs.train->size()) {
    return differs("the number of training samples", inputs.train->size(), manifest.train_samples);
  }
  if (config.model.features != stored.model.features) {
    return differs("the number of features", config.model.features, stored.model.features);
  }
  if (config.model.labels != stored.model.labels) {
    return differs("the number of labels", config.model.labels, stored.model.labels);
  }
  if (config.model.hidden != stored.model.hidden) {
    return differs("model.hidden", config.model.hidden, stored.model.hidden);
  }
  if (config.train.batch != stored.train.batch) {
    return differs("train.batch", config.train.batch, stored.train.batch);
  }
  if (IsSynchronous(config.train) != IsSynchronous(stored.train)) {
    return differs("train.staleness", config.train.staleness, stored.train.staleness);
  }
  if (config.train.target_batch != stored.train.target_batch) {
    return differs("train.target_batch", config.train.target_batch, stored.train.target_batch);
  }
  if (config.train.unit_batches != stored.train.unit_batches) {
    return differs("train.unit_batches", config.train.unit_batches, stored.train.unit_batches);
  }
  if (config.cluster.slots != stored.cluster.slots) {
    return differs("cluster.slots", config.cluster.slots, stored.cluster.slots);
  }
  if (config.common.seed != stored.common.seed) {
    return differs("common.seed", config.common.seed, stored.common.seed);
  }
  const auto changed = [&](const char* what) {
    return BadInput(
        fmt::format("--resume: {} differs from checkpoint {}; it cannot change", what, checkpoint));
  };
  // These decide what a stored row holds.
  if (config.model.precision != stored.model.precision) return changed("model.precision");
  if (config.train.moments != stored.train.moments ||
      config.train.optimizer != stored.train.optimizer) {
    return changed("train.optimizer or train.moments");
  }
  if (config.model.active != stored.model.active) return changed("model.active");
  if (config.hash != stored.hash) return changed("section hash");
  return {};
}

}  // namespace

Status FindWhatToResume(bool began, RunInputs* inputs) {
  const LedgerState& ledger = inputs->ledger;
  if (ledger.opened && ledger.run.train_samples != inputs->train->size()) {
    return BadInput(
        fmt::format("--resume: the run has {} training samples, not {}; name the same train.data",
                    ledger.run.train_samples, inputs->train->size()));
  }
  if (ledger.opened) inputs->run = ledger.run.run;
  if (ledger.live) {
    DSLIDE_RETURN_IF_ERROR(AdoptOrphans(ledger, inputs->checkpoint_directory));
  }
  const Result<std::string> found = FindCheckpoint(inputs->checkpoint_directory);
  if (!found.ok() && began) return {};
  DSLIDE_RETURN_IF_ERROR(found);
  Result<Manifest> manifest = ReadManifest(*found);
  DSLIDE_RETURN_IF_ERROR(manifest);
  if (!ledger.opened) inputs->run = manifest->run;
  const Result<Config> stored = ParseConfig(manifest->config, *found + "/manifest");
  DSLIDE_RETURN_IF_ERROR(stored);
  DSLIDE_RETURN_IF_ERROR(CheckUnchanged(*inputs, *manifest, *stored, *found));
  inputs->checkpoint = std::move(*manifest);
  inputs->checkpoint_path = *found;
  inputs->checkpoints = CompleteCheckpoints(inputs->checkpoint_directory);
  return {};
}

}  // namespace dslide
