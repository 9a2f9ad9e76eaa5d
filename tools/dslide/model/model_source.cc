#include "tools/dslide/model/model_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/process.h"
#include "common/checkpoint/layout.h"
#include "common/data/text_stream.h"
#include "common/math/kernels.h"
#include "common/model/index_probes.h"
#include "common/model/model_builder.h"
#include "common/model/model_file.h"
#include "common/text/samples.h"
#include "tools/dslide/model/inference.h"

namespace dslide {
namespace {

constexpr uint32_t kMeasured = 256;  // samples that an index is measured on
constexpr uint32_t kSeen = 4096;     // samples that they are spread over

Result<SparseRows> FirstSamples(const std::string& path, const Model& model) {
  const ModelInput input = {model.preprocessor(), {model.info().features(), model.info().labels()}};
  Result<SampleReader> reader = SampleReader::Open(path, input);
  DSLIDE_RETURN_IF_ERROR(reader);
  const XcHeader* header = reader->header();
  if (header != nullptr && header->num_features != model.info().features()) {
    return BadInput(fmt::format("{}: {} features, the model has {}", path, header->num_features,
                                model.info().features()));
  }
  SparseRows rows;
  for (uint32_t i = 0; i < kSeen; ++i) {
    const Result<std::optional<SampleView>> sample = reader->Next();
    DSLIDE_RETURN_IF_ERROR(sample);
    if (!*sample) break;
    rows.ids.insert(rows.ids.end(), (*sample)->features.begin(), (*sample)->features.end());
    rows.values.insert(rows.values.end(), (*sample)->values.begin(), (*sample)->values.end());
    rows.EndRow();
  }
  return rows;
}

SparseRows Spread(const SparseRows& rows) {
  const uint32_t count = std::min(rows.rows(), kMeasured);
  SparseRows some;
  for (uint32_t i = 0; i < count; ++i) {
    const auto from = static_cast<size_t>(uint64_t{i} * rows.rows() / count);
    some.ids.insert(some.ids.end(), rows.Ids(from).begin(), rows.Ids(from).end());
    some.values.insert(some.values.end(), rows.Values(from).begin(), rows.Values(from).end());
    some.EndRow();
  }
  return some;
}

// The name of the run's directory, RUN/checkpoint/step-N, or of the one that holds the checkpoint.
std::string RunNameOf(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path above = fs::weakly_canonical(checkpoint, ignored).parent_path();
  return (above.filename() == kCheckpointsName ? above.parent_path() : above).filename();
}

// The model with an index as samples need it; without one where there are no samples.
Result<std::shared_ptr<const Model>> WithIndex(std::shared_ptr<const Model> model,
                                               const ModelSourceOptions& options) {
  const TrainConfig& train = model->info().config.train;
  Error why = BadInput("the run names no data");
  for (const std::string& path : {options.data, train.test, train.data}) {
    if (path.empty()) continue;
    if (path != options.data && IsReadOnce(path)) {
      why = BadInput(path + ": is read once");
      continue;
    }
    const Result<SparseRows> samples = FirstSamples(path, *model);
    if (samples.ok() && samples->rows() > 0) {
      const IndexTrial trial = ChooseProbes(std::move(model), Spread(*samples));
      options.say(fmt::format("{} ({})", trial.Text(), path));
      return trial.model;
    }
    why = samples.ok() ? BadInput(path + ": no samples") : samples.error();
    if (path == options.data) return why;
  }
  options.say(fmt::format("index: none, {}; --data names samples to measure it on", why.message));
  return model;
}

}  // namespace

Result<std::shared_ptr<const Model>> LoadModel(const std::string& path,
                                               const ModelSourceOptions& options) {
  if (IsModelFile(path)) return OpenModelFile(path, options.memory);
  Result<std::unique_ptr<Inference>> source = Inference::Load(path);
  DSLIDE_RETURN_IF_ERROR(source);
  ModelInfo info;
  info.name = RunNameOf((*source)->directory());
  info.config = (*source)->config();
  info.samples = (*source)->manifest().samples;
  if (const auto* names = (*source)->label_names();
      names != nullptr && !(*source)->preprocessor()) {
    info.label_names = *names;
  }
  ModelBuilder builder(std::move(info), (*source)->shared_preprocessor(), BestKernels());
  (*source)->ForEachRow(
      [&](uint32_t feature, const float* weights) { builder.SetInput(feature, weights); },
      [&](uint32_t label, const float* weights, float bias) {
        builder.SetNeuron(label, weights, bias);
      });
  source->reset();
  ModelBuilder::Options options_of_builder;
  options_of_builder.int8_only = options.int8_only;
  options_of_builder.threads = CoresOfThisMachine();
  if (!options.index) {
    options_of_builder.cells = 1;
    return std::move(builder).Finish(options_of_builder);
  }
  return WithIndex(std::move(builder).Finish(options_of_builder), options);
}

}  // namespace dslide
