#include "tools/dslide/commands/train_from.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "common/app/config_paths.h"
#include "common/base/process.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/config/config_keys.h"
#include "common/data/checksum.h"
#include "common/data/file_lock.h"
#include "common/data/measures/data_facts.h"
#include "common/data/text_stream.h"
#include "common/data/whole_file.h"
#include "common/model/model_file.h"
#include "common/run/hold_out.h"
#include "scheduler/balance/model_size.h"
#include "tools/dslide/data/data_paths.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Removes what was made, unless it is kept.
class Made {
 public:
  ~Made() {
    std::error_code ignored;
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) fs::remove_all(*path, ignored);
  }
  // Something is about to be made here.
  void Add(const fs::path& path) { paths_.push_back(path); }
  Status Directory(const std::string& setting, const fs::path& path) {
    std::error_code error;
    fs::path missing = path;
    for (fs::path above = missing; !fs::exists(above, error); above = above.parent_path()) {
      missing = above;
    }
    if (!fs::exists(missing, error)) Add(missing);
    fs::create_directories(path, error);
    if (!error) return {};
    return BadInput(fmt::format("{} = {}: {}; name a directory that can be written", setting,
                                path.string(), error.message()));
  }
  void Keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

// Lies in a run directory while that is filled, and is locked. The lock ends with the process.
constexpr char kUnfinishedName[] = "train-from.unfinished";

// What an interrupted beginning has left may be there, too.
Status CheckEmpty(const std::string& directory) {
  std::error_code error;
  if (!fs::exists(directory, error) || fs::is_empty(directory, error)) return {};
  if (IsUnfinishedStart(directory)) return {};
  return BadInput(fmt::format(
      "--from: {} is not empty; name another --run-dir, or continue its run with --resume alone",
      directory));
}

// What was lowered to the earlier data may be as by default again.
void RaiseToDefaults(ModelConfig* model) {
  for (uint32_t ModelConfig::*key : {&ModelConfig::candidates, &ModelConfig::negatives}) {
    if (model->*key == model->labels) model->*key = std::max(model->*key, ModelConfig().*key);
  }
}

// The run of a stream has been through its data once, as it came; the new one has data of its own,
// which it goes through as if it had begun without the stream.
void ForgetStream(TrainConfig* train) {
  const TrainConfig defaults;
  train->open_vocabulary = defaults.open_vocabulary;
  train->segment_samples = defaults.segment_samples;
  train->segment_s = defaults.segment_s;
  train->admit_count = defaults.admit_count;
  train->expire_segments = defaults.expire_segments;
  train->vocabulary_mb = defaults.vocabulary_mb;
  train->data.clear();
  train->epochs = defaults.epochs;
  train->decay = defaults.decay;
  train->warmup_batches = defaults.warmup_batches;
  train->heldout = defaults.heldout;
  train->cooldown_epochs = defaults.cooldown_epochs;
  train->late_dropout = defaults.late_dropout;
  train->late_negatives = defaults.late_negatives;
}

// Settings that the earlier run has chosen by its held-out samples.
void ForgetChoices(TrainConfig* train) {
  const TrainConfig defaults;
  if (train->schedule_epochs > 0) {
    train->epochs = train->schedule_epochs;
    train->schedule_epochs = defaults.schedule_epochs;
    train->cooldown_epochs = defaults.cooldown_epochs;
  }
  for (auto key : {&TrainConfig::late_dropout, &TrainConfig::late_negatives}) {
    if ((train->*key).value_or(0) > 0) train->*key = defaults.*key;
  }
}

// The new run's data may have another format.
void ForgetFormat(TextConfig* text) {
  if (IsOfTokens(*text)) return;
  text->format = TextFormat::kRecords;
}

// With commas: "41,218 labels".
std::string Counted(uint64_t count, const std::string& thing) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return fmt::format("{} {}{}", text, thing, count == 1 ? "" : "s");
}

}  // namespace

bool IsUnfinishedStart(const std::string& run_directory) {
  std::error_code error;
  return fs::exists(run_directory + "/" + kUnfinishedName, error) &&
         !fs::exists(run_directory + "/" + kLedgerName, error) &&
         CompleteCheckpoints(run_directory + "/" + kCheckpointsName).empty();
}

Result<TrainFrom> TrainFrom::Read(const Task& task) {
  TrainFrom start;
  start.task_ = task;
  DSLIDE_RETURN_IF_ERROR(CheckEmpty(task.run_directory));
  if (IsModelFile(task.model)) {
    return BadInput(fmt::format(
        "--from: {} is a model file, without optimiser state; name the run that it is of",
        task.model));
  }
  Result<EarlierModel> from = FindEarlierModel(task.model);
  if (!from.ok()) return BadInput("--from: " + from.error().message);
  start.from_ = *std::move(from);
  DSLIDE_RETURN_IF_ERROR(start.ReadConfig());
  DSLIDE_RETURN_IF_ERROR(start.ReadData());
  const Dataset& data = start.train_.data;
  MakePathsAbsolute(&start.config_);
  Result<std::vector<uint32_t>> held_out = HoldOut(data, &start.config_, &start.note_);
  DSLIDE_RETURN_IF_ERROR(held_out);
  start.held_out_ = *std::move(held_out);
  const uint64_t trained = data.size() - start.held_out_.size();
  ResolveConfig(data.num_features(), data.num_labels(), &start.config_, DataFactsOf(data, trained));
  DSLIDE_RETURN_IF_ERROR(start.CheckConfig());
  DSLIDE_RETURN_IF_ERROR(start.CheckMemory());
  return start;
}

Status TrainFrom::ReadConfig() {
  Config base = from_.config;
  base.checkpoint.directory.clear();
  RaiseToDefaults(&base.model);
  if (base.train.open_vocabulary) ForgetStream(&base.train);
  ForgetChoices(&base.train);
  // The new data has other samples to hold out.
  if (base.train.heldout != 0) base.train.heldout.reset();
  ForgetFormat(&base.text);
  // What the earlier run was resolved to may be refused for a stream: first what the user asks for.
  const Result<Config> asked = LoadConfig(task_.config_file, task_.overrides);
  Result<Config> config = LoadConfig(task_.config_file, task_.overrides, base);
  if ((asked.ok() && asked->train.open_vocabulary) ||
      (config.ok() && config->train.open_vocabulary)) {
    return BadInput(
        "--from: a stream (train.open_vocabulary) begins with a model of its own; leave --from "
        "out, or train on a file");
  }
  DSLIDE_RETURN_IF_ERROR(config);
  config_ = *std::move(config);
  const std::string checkpoints = CheckpointsDirectory();
  if (CompleteCheckpoints(checkpoints).empty()) return {};
  return BadInput(fmt::format(
      "--from: {} holds checkpoints of an earlier run; name another checkpoint.directory",
      checkpoints));
}

Status TrainFrom::ReadData() {
  const std::string& path = config_.train.data;
  if (path.empty()) {
    return BadInput("--from: train.data is not set; name the training file by --data FILE");
  }
  if (path == "-") {
    return BadInput("--from: train.data=- is read once, but --from reads data twice; name a file");
  }
  if (IsReadOnce(path)) {
    return BadInput(fmt::format(
        "--from: {} is read once, but --from reads data twice; write it to a file and name that",
        path));
  }
  auto known = LoadPreprocessorOf(from_.directory, from_.manifest.preprocessor);
  DSLIDE_RETURN_IF_ERROR(known);
  const bool of_tokens = *known != nullptr && IsOfTokens((*known)->config());
  bool is_text = of_tokens;
  if (!of_tokens && !MatrixPathsOf(path)) {
    const Result<RecordFile::Opened> opened = RecordFile::TryOpen(path, DataFormatOf(config_.text));
    DSLIDE_RETURN_IF_ERROR(opened);
    is_text = opened->records.has_value();
  }
  if (is_text != (*known != nullptr)) {
    return BadInput(fmt::format("--from: {} has {}, but the model in {} was trained on {}", path,
                                is_text ? "text" : "no text", from_.directory,
                                is_text ? "numbers" : "text"));
  }
  // Words and items that are new are left out.
  std::shared_ptr<const Preprocessor> extended = of_tokens ? *known : nullptr;
  if (is_text && !of_tokens) {
    Result<Preprocessor> all = (*known)->Extend(
        path, CoresOfThisMachine(), config_.train.min_label_samples, DataFormatOf(config_.text));
    DSLIDE_RETURN_IF_ERROR(all);
    extended = std::make_shared<const Preprocessor>(*std::move(all));
  }
  Result<TrainingSamples> train =
      LoadTrainingSamples(path, {.text = config_.text,
                                 .min_label_samples = config_.train.min_label_samples,
                                 .known = std::move(extended),
                                 .name_weight = config_.labels.name_weight});
  DSLIDE_RETURN_IF_ERROR(train);
  train_ = *std::move(train);
  if (train_.data.size() == 0) return BadInput(fmt::format("{}: no samples to train on", path));
  train_.data.Widen(from_.config.model.features, from_.config.model.labels);
  return {};
}

// The stored rows must be of the new run's kind.
Status TrainFrom::CheckConfig() const {
  Config then = from_.config;
  then.model.features = config_.model.features;
  then.model.labels = config_.model.labels;
  if (!IsOfTokens(then.text) && !IsOfTokens(config_.text)) {
    then.text.format = config_.text.format;
    then.text.fields = config_.text.fields;
  }
  if (then.train.open_vocabulary) {
    ForgetStream(&then.train);
    // That of many labels, whose rows go to other slots where there are few.
    then.cluster.slots = config_.cluster.slots;
    then.cluster.input_slots = config_.cluster.input_slots;
  }
  then.train.heldout = config_.train.heldout;
  then.train.effort = config_.train.effort;
  const ConfigKey* key = FixedKeyThatDiffers(config_, then);
  if (key == nullptr) return {};
  return BadInput(fmt::format("--from: {} is {} but {} in {}; it cannot change", key->FullName(),
                              key->field.format(config_), key->field.format(then),
                              from_.directory));
}

Status TrainFrom::CheckMemory() const {
  const uint64_t bytes = ModelMemoryBytes(config_);
  const uint64_t machine = MemoryOfThisMachine();
  if (bytes <= machine) return {};
  return Failed(fmt::format(
      "--from: a model of {}, {} and {} takes {} MB, this machine has {} MB; "
      "use a larger one",
      Counted(config_.model.features, "feature"), Counted(config_.model.labels, "label"),
      HiddenText(config_.model) + " hidden units", bytes >> 20, machine >> 20));
}

std::string TrainFrom::Description() const {
  const ModelConfig& before = from_.config.model;
  const ModelConfig& now = config_.model;
  return fmt::format(
             "from {}: {} and {}; {} and {} are new{}", task_.model,
             Counted(before.labels, "label"), Counted(before.features, "feature"),
             Counted(now.labels - before.labels, "label"),
             Counted(now.features - before.features, "feature"),
             from_.config.train.open_vocabulary
                 ? "; that was the run of a stream, this one goes through its data by epochs"
                 : "") +
         (note_.empty() ? "" : "; " + note_);
}

std::string TrainFrom::CheckpointsDirectory() const {
  const std::string& chosen = config_.checkpoint.directory;
  return chosen.empty() ? task_.run_directory + "/" + kCheckpointsName : chosen;
}

Status TrainFrom::Write(const Stopped& stopped) {
  NewLabels labels;
  if (config_.model.labels > from_.config.model.labels) {
    Result<std::unique_ptr<Inference>> model = Inference::Load(from_.directory);
    DSLIDE_RETURN_IF_ERROR(model);
    Result<NewLabels> met =
        MeetNewLabels(model->get(), train_.data, held_out_, config_.model.labels, stopped);
    DSLIDE_RETURN_IF_ERROR(met);
    labels = *std::move(met);
  }
  Made made;
  const fs::path root = fs::absolute(task_.run_directory);
  const std::string checkpoints = fs::absolute(CheckpointsDirectory()).string();
  DSLIDE_RETURN_IF_ERROR(made.Directory("--run-dir", root));
  const Result<FileLock> unfinished = FileLock::Try(
      root / kUnfinishedName,
      fmt::format("{}: another dslide train --from begins a run there", task_.run_directory));
  if (!unfinished.ok() && unfinished.error().kind == ErrorKind::kBadInput) {
    return BadInput(fmt::format("--run-dir: {}; name a directory that can be written",
                                unfinished.error().message));
  }
  DSLIDE_RETURN_IF_ERROR(unfinished);
  made.Add(root / kUnfinishedName);
  DSLIDE_RETURN_IF_ERROR(CheckEmpty(task_.run_directory));  // still, with the lock
  DSLIDE_RETURN_IF_ERROR(made.Directory("checkpoint.directory", checkpoints));
  made.Add(root / "config.ini");
  DSLIDE_RETURN_IF_ERROR(WriteWholeFile((root / "config.ini").string(), FormatConfig(config_)));
  const Preprocessor* preprocessor = train_.preprocessor.get();
  if (preprocessor != nullptr) {
    made.Add(checkpoints + "/" + PreprocessorName(ChecksumOf(preprocessor)));
    DSLIDE_RETURN_IF_ERROR(StorePreprocessor(checkpoints, preprocessor));
  }
  const std::string first = checkpoints + "/" + CheckpointName(0);
  std::error_code error;
  fs::remove_all(first, error);  // of an interrupted beginning: none is complete
  made.Add(first);
  DSLIDE_RETURN_IF_ERROR(WriteCheckpoint(checkpoints, labels, stopped));
  made.Keep();
  fs::remove(root / kUnfinishedName, error);
  return {};
}

Status TrainFrom::WriteCheckpoint(const std::string& checkpoints, const NewLabels& labels,
                                  const Stopped& stopped) {
  Manifest manifest;
  manifest.run = {DrawIncarnation().value};
  manifest.name = CheckpointName(0);
  manifest.config = FormatConfig(config_);
  manifest.train_samples = train_.data.size() - held_out_.size();
  manifest.train_checksum = Checksum(train_.data);
  manifest.preprocessor = ChecksumOf(train_.preprocessor.get());
  train_ = {};  // the memory is for the model
  const std::string directory = checkpoints + "/" + manifest.name;
  Result<ManifestShard> shard = WriteGrownShard(from_, config_, labels, directory, stopped);
  DSLIDE_RETURN_IF_ERROR(shard);
  manifest.shards.push_back(*std::move(shard));
  manifest.written_s = static_cast<uint64_t>(SecondsSince1970());
  return WriteManifest(directory, manifest);
}

}  // namespace dslide
