#include "scheduler/base/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "common/config/config_keys.h"
#include "common/config/stored_config.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "scheduler/ledger/orphans.h"

namespace dslide {
namespace {

void WarnOfIgnored(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) LogWarning({event::kSettingIgnored, line});
}

// The remedy for other data: a resumed run keeps its own.
constexpr const char* kOtherData =
    "name the same train.data, or begin a new run with this one's model: dslide train --from RUN "
    "--run-dir NEW --data FILE";

// Other data may have the same number of samples, features and labels.
Status CheckSameSamples(const RunInputs& inputs, uint64_t checksum) {
  if (checksum == 0 || checksum == inputs.train_checksum) return {};
  return BadInput(fmt::format("--resume: {} has other samples than this run started with; {}",
                              inputs.config.train.data, kOtherData));
}

// `where`: the configuration `then` is stored.
Status CheckSameKeys(const Config& now, const Config& then, const std::string& where) {
  const ConfigKey* key = FixedKeyThatDiffers(WithNominalSizes(now), WithNominalSizes(then));
  if (key == nullptr) return {};
  const bool by_data = key->FullName() == "model.features" || key->FullName() == "model.labels";
  const std::string before = key->field.format(then);
  const std::string remedy =
      by_data ? kOtherData
              : fmt::format("it cannot change: give --set {}={}", key->FullName(), before);
  return BadInput(fmt::format("--resume: {} is {} but {} in {}; {}", key->FullName(),
                              key->field.format(now), before, where, remedy));
}

// Another number of held-out samples would look like other data.
Status CheckSameHeldOut(const Config& now, const Config& stored, const std::string& where) {
  Config then = now;
  then.train.heldout = stored.train.heldout;
  return CheckSameKeys(now, then, where);
}

// What a stored row holds and which batches there are must be as when `checkpoint` was written.
Status CheckUnchanged(const RunInputs& inputs, const Manifest& manifest, const Config& stored,
                      const std::string& checkpoint) {
  const std::string where = "checkpoint " + checkpoint;
  DSLIDE_RETURN_IF_ERROR(CheckSameHeldOut(inputs.config, stored, where));
  if (manifest.train_samples != inputs.EpochSamples()) {
    return BadInput(fmt::format("--resume: the number of training samples is {} but {} in {}; {}",
                                inputs.EpochSamples(), manifest.train_samples, where, kOtherData));
  }
  DSLIDE_RETURN_IF_ERROR(CheckSameSamples(inputs, manifest.train_checksum));
  return CheckSameKeys(inputs.config, stored, where);
}

// The settings that the run has chosen, without those of keys that the user has changed: to a value
// that is neither the run's own (`then`) nor the chosen one. The keys that say when training ends
// go together.
Overrides ChosenSettings(const LedgerState& ledger, const Config& now, const Config& then) {
  const auto ends = [](const std::string& setting) {
    return setting.starts_with("train.epochs=") || setting.starts_with("train.schedule_epochs=") ||
           setting.starts_with("train.cooldown_epochs=");
  };
  const Result<Config> chosen = LoadConfig("", ledger.plan.settings, then);
  if (!chosen.ok()) return {};
  const auto changed = [&](const std::string& setting) {
    const ConfigKey* key = FindConfigKey(setting.substr(0, setting.find('=')));
    if (key == nullptr) return true;
    const std::string value = key->field.format(now);
    return value != key->field.format(then) && value != key->field.format(*chosen);
  };
  Overrides kept = ledger.plan.settings;
  const bool other_end = std::ranges::any_of(
      kept, [&](const std::string& setting) { return ends(setting) && changed(setting); });
  std::erase_if(kept, [&](const std::string& setting) {
    return changed(setting) || (other_end && ends(setting));
  });
  return kept;
}

}  // namespace

Status CheckSomethingToResume(bool began, const LedgerState& ledger,
                              const std::string& checkpoint_directory) {
  const Result<std::string> found = FindCheckpoint(checkpoint_directory);
  if (found.ok() || ledger.live || (began && ledger.last_checkpoint.empty())) return {};
  if (began) return CheckpointsAreGone(ledger, checkpoint_directory);
  return found.error();
}

Status CheckKeysToResume(const RunInputs& inputs) {
  if (inputs.ledger.opened) {
    const Result<Config> config = ParseStoredConfig(inputs.ledger.run.config, "the ledger");
    DSLIDE_RETURN_IF_ERROR(config);
    return CheckSameKeys(inputs.config, *config, "the run's ledger");
  }
  const Result<std::string> found = FindCheckpoint(inputs.checkpoint_directory);
  if (!found.ok()) return {};
  const Result<Manifest> manifest = ReadManifest(*found);
  DSLIDE_RETURN_IF_ERROR(manifest);
  const Result<Config> config = ParseStoredConfig(manifest->config, *found + "/manifest");
  DSLIDE_RETURN_IF_ERROR(config);
  return CheckSameKeys(inputs.config, *config, "checkpoint " + *found);
}

bool IsFinished(const LedgerState& ledger, Config config) {
  if (!ledger.finished || ledger.live || config.train.open_vocabulary) return false;
  const Result<Config> stored = ParseStoredConfig(ledger.run.config, "the ledger");
  if (!stored.ok() || stored->model.features == 0 || stored->model.labels == 0) return false;
  const TrainConfig& then = stored->train;
  const bool same_data = config.train.data == then.data || config.train.data == "-";
  if (!same_data || config.train.test != then.test || config.train.dev != then.dev) return false;
  // The run keeps a copy of the names, which may be gone.
  std::error_code error;
  const bool has_names =
      then.label_names.empty() || std::filesystem::exists(then.label_names, error);
  if (!has_names || config.train.label_names.empty() != then.label_names.empty()) return false;
  // What the data decides is as it was; the rest is derived as it was then.
  if (config.model.neurons == Neurons::kAuto) config.model.neurons = stored->model.neurons;
  if (config.model.active == ActiveSet::kAuto) config.model.active = stored->model.active;
  if (!config.train.normalize) config.train.normalize = stored->train.normalize;
  if (!config.train.heldout) config.train.heldout = stored->train.heldout;
  ResolveConfig(stored->model.features, stored->model.labels, &config,
                {ledger.run.train_samples, 0});
  const Result<Config> chosen = LoadConfig("", ChosenSettings(ledger, config, *stored), config);
  if (!chosen.ok()) return false;
  return chosen->train.epochs <= ledger.epoch && FixedKeyThatDiffers(config, *stored) == nullptr;
}

Status FindWhatToResume(bool began, RunInputs* inputs) {
  const LedgerState& ledger = inputs->ledger;
  if (ledger.opened) {
    std::vector<std::string> without_effect;
    const Result<Config> stored =
        ParseStoredConfig(ledger.run.config, "the ledger", &without_effect);
    DSLIDE_RETURN_IF_ERROR(stored);
    WarnOfIgnored(without_effect);
    DSLIDE_RETURN_IF_ERROR(CheckSameHeldOut(inputs->config, *stored, "the run's ledger"));
    if (ledger.run.train_samples != inputs->EpochSamples()) {
      return BadInput(fmt::format("--resume: the run has {} training samples, not {}; {}",
                                  ledger.run.train_samples, inputs->EpochSamples(), kOtherData));
    }
    DSLIDE_RETURN_IF_ERROR(CheckSameSamples(*inputs, ledger.run.train_checksum));
    inputs->run = ledger.run.run;
    inputs->settings = ChosenSettings(ledger, inputs->config, *stored);
    inputs->open_keys = ledger.run.open_keys;
  }
  if (ledger.live) {
    DSLIDE_RETURN_IF_ERROR(
        AdoptOrphans(ledger, inputs->checkpoint_directory, inputs->preprocessor));
  }
  const Result<std::string> found = FindCheckpoint(inputs->checkpoint_directory);
  if (!found.ok() && began) {
    // Servers that still run may hold the trained state.
    if (ledger.live || ledger.last_checkpoint.empty()) return {};
    return CheckpointsAreGone(ledger, inputs->checkpoint_directory);
  }
  DSLIDE_RETURN_IF_ERROR(found);
  Result<Manifest> manifest = ReadManifest(*found);
  DSLIDE_RETURN_IF_ERROR(manifest);
  if (!ledger.opened) inputs->run = manifest->run;
  std::vector<std::string> without_effect;
  Result<Config> stored =
      ParseStoredConfig(manifest->config, *found + "/manifest", &without_effect);
  DSLIDE_RETURN_IF_ERROR(stored);
  if (!ledger.opened) WarnOfIgnored(without_effect);
  // A run of a version without the key: every slot holds rows of both layers.
  if (stored->cluster.input_slots < 0) {
    stored->cluster.input_slots = inputs->config.cluster.input_slots = 0;
  }
  DSLIDE_RETURN_IF_ERROR(CheckUnchanged(*inputs, *manifest, *stored, *found));
  inputs->checkpoint = std::move(*manifest);
  inputs->checkpoint_path = *found;
  inputs->checkpoints = CompleteCheckpoints(inputs->checkpoint_directory);
  return {};
}

}  // namespace dslide
