#include "tools/dslide/model/model_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "common/base/process.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/stored_label_counts.h"
#include "common/checkpoint/stored_ranking.h"
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

// Error: the model of `path` does not say how frequent labels are, which `rare` above 0 needs.
Status CheckRare(const std::string& path, bool has_counts, float rare) {
  if (has_counts || rare == 0.0f) return {};
  return BadInput(fmt::format(
      "a preference for rare labels: {} does not say how many samples a label has: it is of a "
      "stream or by an earlier version; train it again, or leave --rare out",
      path));
}

}  // namespace

void DeclareRanking(CommandLine* line) {
  line->Option("rare", "0..1", "prefer rare labels, at the cost of precision; 0: not at all", "0");
  line->Option("rank", "names|model",
               "rank labels by their names in the text, too, if training found that these help; "
               "model: by the model alone",
               "names");
}

Result<RankingChoice> RankingFrom(const ParsedArguments& arguments) {
  const Result<float> rare = arguments.Fraction("rare");
  DSLIDE_RETURN_IF_ERROR(rare);
  const std::string rank = arguments.Get("rank");
  if (rank != "names" && rank != "model") {
    return BadInput(fmt::format("--rank {}: must be names or model", rank));
  }
  return RankingChoice{*rare, rank == "model"};
}

Result<std::shared_ptr<const NameRanking>> LoadNameRankingOf(const std::string& checkpoint,
                                                             const Preprocessor* preprocessor) {
  if (preprocessor == nullptr || preprocessor->vocabulary().empty()) {
    return std::shared_ptr<const NameRanking>();
  }
  const Vocabulary& vocabulary = preprocessor->vocabulary();
  auto reranker = LoadRerankerOf(checkpoint, vocabulary);
  DSLIDE_RETURN_IF_ERROR(reranker);
  if (*reranker == nullptr) return std::shared_ptr<const NameRanking>();
  return std::make_shared<const NameRanking>(*std::move(reranker), vocabulary);
}

Result<StoredAdjustment> LoadAdjustmentOf(const std::string& checkpoint, uint32_t num_labels,
                                          float rare) {
  Result<std::vector<uint32_t>> counts = LoadLabelCountsOf(checkpoint, num_labels);
  DSLIDE_RETURN_IF_ERROR(counts);
  const Result<LogitAdjustment> adjustment = LoadRankingOf(checkpoint);
  DSLIDE_RETURN_IF_ERROR(adjustment);
  DSLIDE_RETURN_IF_ERROR(CheckRare(checkpoint, !counts->empty(), rare));
  return StoredAdjustment{*std::move(counts), *adjustment};
}

Result<std::shared_ptr<const Model>> LoadModel(const std::string& path,
                                               const ModelSourceOptions& options) {
  if (IsModelFile(path)) {
    Result<std::shared_ptr<const Model>> model = OpenModelFile(path, options.memory);
    DSLIDE_RETURN_IF_ERROR(model);
    if (options.by_model) model = (*model)->WithNameRanking(nullptr);
    if (!options.rare) return model;
    DSLIDE_RETURN_IF_ERROR(
        CheckRare(path, !(*model)->arrays().label_counts.empty(), *options.rare));
    return AdjustedModel(*std::move(model), *options.rare);
  }
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
  Result<StoredAdjustment> stored_adjustment =
      LoadAdjustmentOf((*source)->directory(), info.labels(), options.rare.value_or(0.0f));
  DSLIDE_RETURN_IF_ERROR(stored_adjustment);
  info.adjustment = stored_adjustment->adjustment;
  if (!options.by_model) {
    auto names = LoadNameRankingOf((*source)->directory(), (*source)->preprocessor());
    DSLIDE_RETURN_IF_ERROR(names);
    info.name_ranking = *std::move(names);
  }
  ModelBuilder builder(std::move(info), (*source)->shared_preprocessor(), BestKernels());
  (*source)->ForEachRow(
      [&](uint32_t feature, const float* weights) { builder.SetInput(feature, weights); },
      [&](uint32_t label, const float* weights, float bias) {
        builder.SetNeuron(label, weights, bias);
      });
  builder.SetLabelCounts(std::move(stored_adjustment->counts));
  source->reset();
  ModelBuilder::Options options_of_builder;
  options_of_builder.int8_only = options.int8_only;
  options_of_builder.threads = CoresOfThisMachine();
  if (!options.index) options_of_builder.cells = 1;
  const std::shared_ptr<const Model> stored = std::move(builder).Finish(options_of_builder);
  std::shared_ptr<const Model> model = AdjustedModel(stored, options.rare.value_or(0.0f));
  if (!options.index) return options.rare ? model : stored;
  Result<std::shared_ptr<const Model>> indexed = WithIndex(std::move(model), options);
  if (!indexed.ok() || options.rare) return indexed;
  const ModelInfo& measured = (*indexed)->info();
  return stored->WithProbes(measured.probes, measured.index_recall);
}

}  // namespace dslide
