#include "tools/dslide/model/model_source.h"

#include <filesystem>
#include <utility>

#include "common/base/process.h"
#include "common/checkpoint/layout.h"
#include "common/math/kernels.h"
#include "common/model/model_builder.h"
#include "common/model/model_file.h"
#include "tools/dslide/model/inference.h"
#include "tools/dslide/model/measured_index.h"

namespace dslide {
namespace {

// The name of the run's directory, RUN/checkpoint/step-N, or of the one that holds the checkpoint.
std::string RunNameOf(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path above = fs::weakly_canonical(checkpoint, ignored).parent_path();
  return (above.filename() == kCheckpointsName ? above.parent_path() : above).filename();
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
