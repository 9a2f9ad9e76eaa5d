#include "scheduler/run_data.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "common/app/config_paths.h"
#include "common/base/plural.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/stored_label_names.h"
#include "common/checkpoint/stored_preprocessor.h"
#include "common/config/config_keys.h"
#include "common/config/stored_config.h"
#include "common/config/value_scale.h"
#include "common/data/checksum.h"
#include "common/data/measures/data_facts.h"
#include "common/data/measures/sample_lengths.h"
#include "common/data/numbers/matrix_reader.h"
#include "common/data/text_stream.h"
#include "common/run/hold_out.h"
#include "common/vocabulary/vocabulary_file.h"
#include "scheduler/kept_input.h"

namespace dslide {
namespace {

// The model of a resumed run. Without a checkpoint only the ledger's configuration is known.
struct KnownModel {
  std::shared_ptr<const Preprocessor> preprocessor;  // null: numbers
  uint32_t features = 0;
  uint32_t labels = 0;
  TrainConfig train;  // of the stored configuration
};

Result<KnownModel> FindKnownModel(const RunInputs& inputs) {
  const std::string& checkpoints = inputs.checkpoint_directory;
  const Result<std::string> newest = FindCheckpoint(checkpoints);
  if (!newest.ok()) {
    if (!inputs.ledger.opened) return KnownModel();
    const Result<Config> config = ParseStoredConfig(inputs.ledger.run.config, "the ledger");
    DSLIDE_RETURN_IF_ERROR(config);
    return KnownModel{nullptr, 0, 0, config->train};
  }
  const Result<Manifest> manifest = ReadManifest(*newest);
  DSLIDE_RETURN_IF_ERROR(manifest);
  const Result<Config> config = ParseStoredConfig(manifest->config, *newest + "/manifest");
  DSLIDE_RETURN_IF_ERROR(config);
  auto preprocessor = LoadPreprocessor(checkpoints, manifest->preprocessor);
  DSLIDE_RETURN_IF_ERROR(preprocessor);
  return KnownModel{*std::move(preprocessor), config->model.features, config->model.labels,
                    config->train};
}

Status CheckFile(const std::string& key, const std::string& path) {
  if (path.empty()) return {};
  std::vector<std::string> files = {path};
  if (const auto matrices = MatrixPathsOf(path)) {
    files = matrices->features;
    if (!matrices->labels.empty()) files.push_back(matrices->labels);
  }
  for (const std::string& file : files) {
    if (access(file.c_str(), R_OK) == 0) continue;
    return BadInput(fmt::format("{}: {}: cannot open: {}", key, file, std::strerror(errno)));
  }
  return {};
}

// A line about labels that no training sample has; "" if there are none.
std::string UnknownLabels(const std::string& path, const Dataset& test) {
  uint64_t unknown = 0;
  for (size_t i = 0; i < test.size(); ++i) {
    unknown += static_cast<uint64_t>(std::ranges::count_if(
        test[i].labels, [&](uint32_t id) { return id >= test.num_labels(); }));
  }
  if (unknown == 0) return "";
  return fmt::format(
      "{}: {:.1f} % of the labels are not in the training data", path,
      100.0 * static_cast<double>(unknown) / static_cast<double>(test.num_label_entries()));
}

// The names that train.label_names gives the labels; none if it is empty.
Result<std::vector<std::string>> LabelNamesOf(const std::string& path, uint32_t num_labels,
                                              bool is_text) {
  if (path.empty()) return std::vector<std::string>();
  if (is_text) {
    return BadInput(fmt::format(
        "train.label_names = {}: train.data is text, which has its labels' names; leave it out",
        path));
  }
  Result<std::vector<std::string>> names = LoadLabelNames(path, num_labels);
  if (!names.ok()) return BadInput("train.label_names: " + names.error().message);
  return names;
}

Status LoadTraining(const KnownModel& known, RunInputs* inputs, RunData* data) {
  const TrainConfig& files = inputs->config.train;
  const LabelsConfig& labels = inputs->config.labels;
  if (!labels.vocabulary.empty() && known.preprocessor != nullptr &&
      known.preprocessor->vocabulary().empty()) {
    return BadInput(fmt::format(
        "labels.vocabulary = {}: the run began without a vocabulary; leave it out, or begin a new "
        "run",
        labels.vocabulary));
  }
  std::vector<std::string> notes;
  std::optional<Vocabulary> vocabulary;
  if (!labels.vocabulary.empty() && known.preprocessor == nullptr) {
    Result<Vocabulary> read = ReadVocabulary(labels.vocabulary, labels.language, &notes);
    DSLIDE_RETURN_IF_ERROR(read);
    vocabulary = *std::move(read);
  }
  Result<TrainingSamples> training = LoadTrainingSamples(
      files.data, {inputs->config.text, files.min_label_samples, known.preprocessor,
                   vocabulary ? &*vocabulary : nullptr, labels.name_weight});
  DSLIDE_RETURN_IF_ERROR(training);
  data->training = *std::move(training);
  for (const std::string& note : notes) {
    data->notes.push_back(fmt::format("{}: {}", labels.vocabulary, note));
  }
  std::ranges::copy(data->training.notes, std::back_inserter(data->notes));
  if (!labels.vocabulary.empty() && data->training.preprocessor == nullptr) {
    return BadInput(
        fmt::format("labels.vocabulary = {}: {} has numbers; name a file of label ids and names by "
                    "train.label_names",
                    labels.vocabulary, files.data));
  }
  Dataset& train = data->training.data;
  // A model that began with that of an earlier run may have more than the data.
  train.Widen(known.features, known.labels);
  if (train.size() == 0) return BadInput(fmt::format("{}: no samples to train on", files.data));
  inputs->train = &train;
  inputs->preprocessor = ChecksumOf(data->training.preprocessor.get());
  inputs->inverse_propensities = std::move(data->training.inverse_propensities);
  return {};
}

// Reads a file that the model is measured on.
Result<Dataset> LoadMeasured(const std::string& path, const KnownModel& known,
                             const RunInputs& inputs, RunData* data) {
  const Dataset& train = *inputs.train;
  Result<LoadedSamples> read = LoadTestSamples(path, data->training, inputs.config.text);
  DSLIDE_RETURN_IF_ERROR(read);
  Dataset& samples = read->data;
  samples.Widen(known.features, known.labels);
  if (samples.num_features() != train.num_features() ||
      samples.num_labels() != train.num_labels()) {
    return BadInput(fmt::format("{}: {} and {}, but {} has {} and {}", path,
                                Plural(samples.num_features(), "feature"),
                                Plural(samples.num_labels(), "label"), inputs.config.train.data,
                                train.num_features(), train.num_labels()));
  }
  data->notes.insert(data->notes.end(), read->notes.begin(), read->notes.end());
  data->notes.push_back(UnknownLabels(path, samples));
  return std::move(samples);
}

Status LoadTest(const KnownModel& known, RunInputs* inputs, RunData* data) {
  const TrainConfig& files = inputs->config.train;
  const auto load = [&](const std::string& path, std::optional<Dataset>* to) -> Status {
    if (path.empty()) return {};
    Result<Dataset> samples = LoadMeasured(path, known, *inputs, data);
    DSLIDE_RETURN_IF_ERROR(samples);
    *to = *std::move(samples);
    return {};
  };
  DSLIDE_RETURN_IF_ERROR(load(files.test, &data->test));
  DSLIDE_RETURN_IF_ERROR(load(files.dev, &data->dev));
  if (data->test) inputs->test = &*data->test;
  if (data->dev) inputs->dev = &*data->dev;
  return {};
}

// Derives what the training data decides. The scale of the values is the model's, if there is one.
Status ResolveByData(const KnownModel& known, RunInputs* inputs, RunData* data) {
  Config& config = inputs->config;
  const Dataset& train = *inputs->train;
  const float median = MedianLength(train);
  if (!config.train.normalize) config.train.normalize = known.train.normalize;
  // Versions derive it in other ways.
  if (!config.train.dropout_hidden) config.train.dropout_hidden = known.train.dropout_hidden;
  const bool derives = !config.train.normalize, open_dropout = !config.train.dropout_hidden;
  ResolveNormalize(median, &config.train);
  const DataFacts facts = DataFactsOf(train, inputs->PassSamples());
  ResolveConfig(train.num_features(), train.num_labels(), &config, facts);
  if (open_dropout && DropoutHidden(config.train) > 0) {
    data->notes.push_back(
        fmt::format("dropout of hidden units {:.2g}; half of the labels have {} or fewer "
                    "(train.dropout_hidden)",
                    DropoutHidden(config.train), Plural(facts.median_label, "training sample")));
  }
  const float divisor = ValueDivisor(config.train);
  if (divisor < 1.0f) {  // the values grow, and were checked as they were
    DSLIDE_RETURN_IF_ERROR(CheckValues(config.train.data, train, divisor));
    if (data->test) DSLIDE_RETURN_IF_ERROR(CheckValues(config.train.test, *data->test, divisor));
    if (data->dev) DSLIDE_RETURN_IF_ERROR(CheckValues(config.train.dev, *data->dev, divisor));
  }
  if (IsUsualLength(median / divisor)) {
    if (!derives || divisor == 1.0f) return {};
    data->notes.push_back(
        fmt::format("the median length of a sample is {:.4g}: all feature values are divided by it "
                    "(train.normalize)",
                    median));
  } else {
    data->notes.push_back(fmt::format(
        "the median length of a sample is {:.4g}, and train.normalize is {}: training may diverge, "
        "or learn little; begin a run with train.normalize=auto",
        median, FindConfigKey("train.normalize")->field.format(config)));
  }
  return {};
}

// What can be said of text and label names when the training data is known.
Status LookAtText(const RunInputs& inputs, RunData* data) {
  const TrainConfig& files = inputs.config.train;
  const bool is_text = data->training.preprocessor != nullptr;
  if (is_text && files.exclude_own_features) {
    return BadInput(
        "train.exclude_own_features: workers do not know the words of a text; leave it out, and "
        "give --exclude-own-features to evaluate and predict");
  }
  Result<std::vector<std::string>> names =
      LabelNamesOf(files.label_names, inputs.train->num_labels(), is_text);
  DSLIDE_RETURN_IF_ERROR(names);
  data->label_names = *std::move(names);
  return {};
}

}  // namespace

Status CheckDataFiles(const TrainConfig& train) {
  for (const auto& [key, path] : {std::pair("test", train.test), {"dev", train.dev}}) {
    if (path != "-") continue;
    return BadInput(
        fmt::format("train.{} = -: only train.data can be standard input; name a file", key));
  }
  if (train.data.empty()) {
    return BadInput("train.data is not set; name the training file by --data FILE");
  }
  for (const auto& [key, path] : {std::pair("train.data", train.data),
                                  {"train.test", train.test},
                                  {"train.dev", train.dev}}) {
    const bool is_stream = path == train.data && train.open_vocabulary;
    if (path == "-" || is_stream || !IsReadOnce(path)) continue;
    return BadInput(
        fmt::format("{} = {} is read once, and a run that goes on reads it again; name a file, or "
                    "give training data on standard input by --data -",
                    key, path));
  }
  DSLIDE_RETURN_IF_ERROR(CheckFile("train.test", train.test));
  DSLIDE_RETURN_IF_ERROR(CheckFile("train.dev", train.dev));
  return CheckFile("train.label_names", train.label_names);
}

Result<std::unique_ptr<RunData>> LoadRunData(const std::string& run_directory, bool resume,
                                             uint32_t server_memory_mb, RunInputs* inputs,
                                             StopSignals* signals) {
  auto data = std::make_unique<RunData>();
  TrainConfig& files = inputs->config.train;
  if (files.open_vocabulary) {
    MakePathsAbsolute(&inputs->config);
    Result<StreamStart> started =
        StartStream(run_directory, resume, server_memory_mb, inputs, signals);
    DSLIDE_RETURN_IF_ERROR(started);
    if (started->finished) return std::unique_ptr<RunData>();
    data->training.description = started->description;
    data->training.preprocessor = started->preprocessor;
    data->notes = started->notes;
    data->stream.emplace(*std::move(started));
    DSLIDE_RETURN_IF_ERROR(LookAtText(*inputs, data.get()));
    return data;
  }
  Result<KnownModel> known = KnownModel();
  if (resume) known = FindKnownModel(*inputs);
  DSLIDE_RETURN_IF_ERROR(known);
  if (files.data == "-") {
    Result<KeptInput> input = KeepStandardInput(run_directory, resume, signals);
    DSLIDE_RETURN_IF_ERROR(input);
    files.data = input->path;
    data->kept = std::move(input->made);
  }
  DSLIDE_RETURN_IF_ERROR(LoadTraining(*known, inputs, data.get()));
  DSLIDE_RETURN_IF_ERROR(LookAtText(*inputs, data.get()));
  DSLIDE_RETURN_IF_ERROR(LoadTest(*known, inputs, data.get()));
  if (!inputs->config.train.heldout) inputs->config.train.heldout = known->train.heldout;
  std::string note;
  Result<std::vector<uint32_t>> held_out = HoldOut(*inputs->train, &inputs->config, &note);
  DSLIDE_RETURN_IF_ERROR(held_out);
  inputs->held_out = *std::move(held_out);
  data->notes.push_back(note);
  inputs->train_checksum = Checksum(*inputs->train);
  MakePathsAbsolute(&inputs->config);  // --resume may come from elsewhere
  DSLIDE_RETURN_IF_ERROR(ResolveByData(*known, inputs, data.get()));
  return data;
}

}  // namespace dslide
