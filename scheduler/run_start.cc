#include "scheduler/run_start.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/app/config_paths.h"
#include "common/app/run_directory.h"
#include "common/base/plural.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/stored_label_counts.h"
#include "common/checkpoint/stored_label_names.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/config/config_keys.h"
#include "common/data/measures/label_counts.h"
#include "common/data/whole_file.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "scheduler/base/events.h"
#include "scheduler/base/resume.h"
#include "scheduler/core/setting_choice.h"
#include "scheduler/pass/trust_policy.h"
#include "scheduler/plan/memory_check.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Creates the directory that a key names, if there is none. Errors name the key.
Status MakeDirectory(const std::string& key, const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && access(path.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return {};
  return BadInput(fmt::format("{} = {}: {}; name a directory that can be written", key,
                              path.string(), error.message()));
}

// Finds out before anything is read that a directory cannot be made or written.
Status CheckDirectory(const std::string& key, const fs::path& path) {
  std::error_code error;
  fs::path there = path;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (access(there.c_str(), W_OK | X_OK) == 0) return {};
  return BadInput(fmt::format("{} = {}: {}; name a directory that can be written", key,
                              path.string(), std::strerror(errno)));
}

// What a finished run came to, for whoever starts it again.
std::string FinishedLine(const fs::path& root, const LedgerState& ledger) {
  const Result<std::string> text = ReadWholeFile((root / "summary.json").string());
  const auto summary = text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  std::string line = fmt::format("{}: the run is finished, {} trained", root.string(),
                                 Plural(ledger.epoch, "epoch"));
  for (const auto& [pointer, name] :
       {std::pair("/p_at_1", "P@1"), std::pair("/held_out/p_at_1", "held-out P@1")}) {
    const nlohmann::json::json_pointer at(pointer);
    if (!summary.contains(at) || !summary[at].is_number()) continue;
    line += fmt::format(", {} {:.2f}", name, 100 * summary[at].get<double>());
  }
  return line + "; for more raise train.epochs";
}

// Whether checkpoint.hook has yet to succeed with a checkpoint.
bool AwaitsHook(const fs::path& root, const Config& config, const std::string& checkpoint) {
  if (config.checkpoint.hook.empty()) return false;
  const Result<std::string> done = ReadWholeFile((root / kHookDoneName).string());
  return !done.ok() || *done != fs::path(checkpoint).filename().string() + "\n";
}

class Starter {
 public:
  Starter(const SchedulerOptions& options, StopSignals* signals)
      : options_(options),
        signals_(signals),
        root_(fs::absolute(options.run_directory)),
        ledger_path_((root_ / kLedgerName).string()),
        run_(std::make_unique<StartedRun>()),
        inputs_(run_->inputs) {}

  Result<std::unique_ptr<StartedRun>> Start() {
    DSLIDE_RETURN_IF_ERROR(CheckRunDirectory(root_.string()));
    run_->directory = root_.string();
    inputs_.config = options_.config;
    inputs_.run = {DrawIncarnation().value};
    inputs_.trust_secret = DrawIncarnation().value;
    inputs_.lease_keys = SchedulerKeys::Draw();
    Result<std::unique_ptr<Endpoint>> endpoint =
        Endpoint::Open(options_.config, root_, options_.resume);
    DSLIDE_RETURN_IF_ERROR(endpoint);
    run_->endpoint = *std::move(endpoint);
    inputs_.keyed = run_->endpoint->encrypted();
    DSLIDE_RETURN_IF_ERROR(LookAtEarlierLives());
    if (options_.resume) {
      DSLIDE_RETURN_IF_ERROR(
          CheckSomethingToResume(began_, inputs_.ledger, inputs_.checkpoint_directory));
      if (SaysFinished()) return std::unique_ptr<StartedRun>();
    }
    DSLIDE_RETURN_IF_ERROR(CheckDataFiles(options_.config.train));
    DSLIDE_RETURN_IF_ERROR(CheckDirectory("--run-dir", root_));
    DSLIDE_RETURN_IF_ERROR(CheckDirectory("checkpoint.directory", inputs_.checkpoint_directory));
    DSLIDE_RETURN_IF_ERROR(LoadData());
    if (run_->data == nullptr) return std::unique_ptr<StartedRun>();
    if (options_.server_memory_mb > 0) {
      const uint64_t bytes = uint64_t{options_.server_memory_mb} << 20;
      const std::string why = WhyAllTooSmall(bytes, inputs_.config);
      if (!why.empty()) return BadInput(why);
    }
    if (options_.resume) DSLIDE_RETURN_IF_ERROR(FindWhatToResume(began_, &inputs_));
    const uint32_t epochs = inputs_.config.train.epochs;
    if (inputs_.ledger.epoch > epochs) {
      PrintLine({event::kRunContinued,
                 fmt::format("train.epochs = {}: the run has trained {} epochs, and trains no "
                             "more; set train.epochs above that",
                             epochs, inputs_.ledger.epoch)});
    }
    // A resumed run's configuration does not show which keys were left open.
    const bool chooses =
        inputs_.HeldOutSamples() > 0 && inputs_.config.model.neurons == Neurons::kLearned;
    if (chooses && !inputs_.ledger.opened) inputs_.open_keys = OpenKeys(options_.config);
    if (!run_->data->stream) DSLIDE_RETURN_IF_ERROR(CountTrained());
    DSLIDE_RETURN_IF_ERROR(WriteFiles());
    Introduce();
    const bool has_work =
        inputs_.ledger.batches > 0 || (inputs_.checkpoint && inputs_.checkpoint->batches > 0);
    run_->earlier = EarlierCosts(run_->directory, has_work);
    run_->contributions = std::move(inputs_.ledger.contributions);
    // Commands are for this machine only: members get the run's configuration.
    const std::string& newest = inputs_.checkpoint_path;
    if (!newest.empty() && AwaitsHook(root_, inputs_.config, newest)) run_->for_hook = newest;
    run_->checkpoint = inputs_.config.checkpoint;
    inputs_.config.checkpoint.hook.clear();
    inputs_.config.checkpoint.shard_hook.clear();
    return std::move(run_);
  }

 private:
  Status OpenLedger() {
    Result<std::unique_ptr<Ledger>> opened = Ledger::Open(ledger_path_, &inputs_.ledger);
    DSLIDE_RETURN_IF_ERROR(opened);
    run_->ledger = *std::move(opened);
    return {};
  }

  // Refuses to begin anew where there is something to continue: an earlier life in which samples
  // counted.
  Status LookAtEarlierLives() {
    std::error_code ignored;
    began_ = fs::exists(ledger_path_, ignored);
    if (began_) DSLIDE_RETURN_IF_ERROR(OpenLedger());
    const std::string& named = options_.config.checkpoint.directory;
    inputs_.checkpoint_directory =
        fs::absolute(named.empty() ? root_ / kCheckpointsName : fs::path(named)).string();
    const bool has_work = inputs_.ledger.batches > 0 || !inputs_.ledger.last_checkpoint.empty();
    const bool has_checkpoints = FindCheckpoint(inputs_.checkpoint_directory).ok();
    if (options_.resume || (!has_work && !has_checkpoints)) return {};
    return BadInput(fmt::format(
        "{} holds {} of an earlier run; continue it with --resume, or name another --run-dir",
        has_work ? run_->directory : inputs_.checkpoint_directory,
        has_work ? "the ledger" : "checkpoints"));
  }

  bool SaysFinished() const {
    Config asked = options_.config;
    MakePathsAbsolute(&asked);
    if (!IsFinished(inputs_.ledger, asked)) return false;
    const Result<std::string> newest = FindCheckpoint(inputs_.checkpoint_directory);
    if (!newest.ok()) return false;
    PrintLine({event::kRunFinished, FinishedLine(root_, inputs_.ledger)});
    if (AwaitsHook(root_, options_.config, *newest)) {
      LogWarning(
          {event::kHookFailed,
           "checkpoint.hook has not succeeded with the last checkpoint; run it with " + *newest});
    }
    return true;
  }

  Status LoadData() {
    DSLIDE_RETURN_IF_ERROR(CheckDecay());
    TrainConfig& train = inputs_.config.train;
    TrustPolicy::Resolve(inputs_.keyed, &train);
    // What comes once is kept in the run directory.
    if (train.open_vocabulary || train.data == "-") {
      DSLIDE_RETURN_IF_ERROR(MakeDirectory("--run-dir", root_));
    }
    Result<std::unique_ptr<RunData>> data = LoadRunData(
        run_->directory, options_.resume, options_.server_memory_mb, &inputs_, signals_);
    DSLIDE_RETURN_IF_ERROR(data);
    run_->data = *std::move(data);
    if (run_->data == nullptr) {
      PrintLine(
          {event::kRunFinished, fmt::format("{}: the stream has ended, {} trained", run_->directory,
                                            Plural(inputs_.ledger.epoch, "segment"))});
    }
    return {};
  }

  // Refuses a train.decay other than none that the user set for a stream. If the key is not set,
  // the rate of a stream does not decay.
  Status CheckDecay() const {
    const TrainConfig& train = options_.config.train;
    const bool given = options_.given.contains("train.decay");
    if (!given || !train.open_vocabulary || train.decay == Decay::kNone) return {};
    return BadInput("train.decay: a stream has no end; leave the key out, or set none");
  }

  // Removes the ledger of an earlier life in which nothing counted.
  Status ForgetEarlierLedger() {
    if (options_.resume || run_->ledger == nullptr) return {};
    run_->ledger.reset();
    inputs_.ledger = LedgerState();
    std::error_code error;
    fs::remove(root_ / kTotalsName, error);
    fs::remove_all(ledger_path_, error);
    if (error) return Failed(fmt::format("{}: cannot remove: {}", ledger_path_, error.message()));
    return {};
  }

  // Otherwise readers would take the results of an earlier start for those of this one, if this one
  // is killed.
  Status RemoveEarlierResults() const {
    std::vector<fs::path> paths = {root_ / "summary.json"};
    const fs::path checkpoints = inputs_.checkpoint_directory;
    // More epochs give other logits than those that an earlier reranker was fitted on.
    paths.push_back(checkpoints / kRerankerName);
    for (const char* name : {kRankingName, kLabelCountsName}) {
      if (!options_.resume) paths.push_back(checkpoints / name);
    }
    for (const fs::path& path : paths) {
      std::error_code error;
      fs::remove(path, error);
      if (error)
        return Failed(fmt::format("{}: cannot remove: {}", path.string(), error.message()));
    }
    return {};
  }

  Status WriteFiles() {
    const std::string& checkpoints = inputs_.checkpoint_directory;
    RunData& data = *run_->data;
    DSLIDE_RETURN_IF_ERROR(MakeDirectory("--run-dir", root_));
    DSLIDE_RETURN_IF_ERROR(MakeDirectory("checkpoint.directory", checkpoints));
    DSLIDE_RETURN_IF_ERROR(RemoveEarlierResults());
    DSLIDE_RETURN_IF_ERROR(StorePreprocessor(checkpoints, data.training.preprocessor.get()));
    if (!data.label_names.empty()) {
      Result<std::string> copy = StoreLabelNames(checkpoints, data.label_names);
      DSLIDE_RETURN_IF_ERROR(copy);
      inputs_.config.train.label_names = *std::move(copy);
    }
    if (!data.stream) DSLIDE_RETURN_IF_ERROR(StoreLabelCounts(checkpoints, label_counts_));
    DSLIDE_RETURN_IF_ERROR(ForgetEarlierLedger());
    // Before the ledger, so that a run that can be resumed has a configuration.
    DSLIDE_RETURN_IF_ERROR(WriteWholeFile((root_ / "config.ini").string(),
                                          FormatConfig(WithNominalSizes(inputs_.config))));
    run_->endpoint->Keep();
    data.kept.Keep();
    if (data.stream) data.stream->made.Keep();
    if (run_->ledger == nullptr) DSLIDE_RETURN_IF_ERROR(OpenLedger());
    return run_->endpoint->Publish();
  }

  // Counts the labels of the samples that are trained, and their names in the texts.
  Status CountTrained() {
    label_counts_ = CountLabels(*inputs_.train, inputs_.held_out);
    // With exclude_own_features the held-out users are unknown to the model, unlike the users that
    // ask for predictions: on gowalla the fit has the wrong sign (+0.1, -0.3 on test users).
    if (inputs_.HeldOutSamples() == 0 || inputs_.config.train.exclude_own_features) return {};
    inputs_.label_logs = std::make_shared<const LabelLogs>(label_counts_);
    return ReadNames();
  }

  // Looks for the vocabulary's names in the texts, by which labels are ranked.
  Status ReadNames() {
    const auto& preprocessor = run_->data->training.preprocessor;
    const bool enough = inputs_.HeldOutSamples() >= kLeastRerankSamples;
    if (!enough || preprocessor == nullptr || preprocessor->vocabulary().empty()) return {};
    Result<NameEvidence> evidence = ReadNameEvidence(inputs_, *preprocessor);
    DSLIDE_RETURN_IF_ERROR(evidence);
    run_->data->notes.push_back(
        fmt::format("names are found in texts by word stems: {}", evidence->stem));
    std::vector<uint32_t> samples(preprocessor->num_labels());
    for (const LabelCount& c : label_counts_) samples[c.label] = static_cast<uint32_t>(c.count);
    run_->reranking = std::make_unique<Reranking>(*std::move(evidence), std::move(samples),
                                                  preprocessor, inputs_.inverse_propensities);
    inputs_.keeps_rankings = true;
    return {};
  }

  void Introduce() const {
    const Endpoint& endpoint = *run_->endpoint;
    LogInfo({event::kListening,
             fmt::format("listening at {}{}", endpoint.address(),
                         endpoint.encrypted() ? ", encrypted" : ""),
             {{"address", endpoint.address()}}});
    PrintLine({event::kDataLoaded, run_->data->training.description});
    const std::string reason =
        inputs_.config.train.open_vocabulary
            ? ""
            : fmt::format("for {}: ", Plural(inputs_.PassSamples(), "sample"));
    PrintLine({event::kRunBegun, reason + TrainingText(inputs_.config)});
    for (const std::string& note : run_->data->notes) {
      if (!note.empty()) PrintLine({event::kDataNote, note});
    }
    for (const std::string& line : LoweredValues(options_.config, inputs_.config, options_.given)) {
      PrintLine({event::kRunBegun, line});
    }
    for (const std::string& line : endpoint.Hints()) PrintLine({event::kRunBegun, line});
    NameRunInLog(inputs_.run);
  }

  const SchedulerOptions& options_;
  StopSignals* signals_;
  const fs::path root_;
  const std::string ledger_path_;
  std::unique_ptr<StartedRun> run_;
  RunInputs& inputs_;                     // of run_
  std::vector<LabelCount> label_counts_;  // of samples that are trained
  bool began_ = false;                    // there was a ledger
};

}  // namespace

Result<std::unique_ptr<StartedRun>> StartRun(const SchedulerOptions& options,
                                             StopSignals* signals) {
  return Starter(options, signals).Start();
}

}  // namespace dslide
