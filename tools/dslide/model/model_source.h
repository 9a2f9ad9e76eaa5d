// Where a Model comes from: a model file, or a checkpoint, of which one is made in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/model/model.h"
#include "common/model/model_file.h"
#include "common/model/name_ranking.h"
#include "tools/dslide/model/format_options.h"

namespace dslide {

struct ModelSourceOptions {
  bool int8_only = false;  // of a model that is made
  bool index = true;       // false: a model that is made has none
  // Samples that the index is measured on; empty: those of the run's train.test, else train.data.
  std::string data;
  NamedFormat format;  // of `data`
  // From 0 to 1, how far rare labels are preferred (LogitAdjustment::At()). nullopt: the model has
  // no logit adjustment, and WriteModelFile() may write it.
  std::optional<float> rare = 0.0f;
  bool by_model = false;  // names in texts do not count (NameRanking)
  bool has_data = false;  // the command has --data, which a line may tell people to use
  ModelMemory memory = ModelMemory::kMapped;  // of a model file
  // Told what is done, a line each.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// The label counts [N] of a checkpoint, empty where they are unknown, and its logit adjustment.
struct StoredAdjustment {
  std::vector<uint32_t> counts;
  LogitAdjustment adjustment;
};
// Errors name the file, or say that `rare` above 0 needs counts.
Result<StoredAdjustment> LoadAdjustmentOf(const std::string& checkpoint, uint32_t num_labels,
                                          float rare);

// Declares --rare and --rank.
void DeclareRanking(CommandLine* line);
struct RankingChoice {
  float rare = 0;         // ModelSourceOptions
  bool by_model = false;  // the same
};
Result<RankingChoice> RankingFrom(const ParsedArguments& arguments);

// Null, if the run has no reranker. Errors name the file.
Result<std::shared_ptr<const NameRanking>> LoadNameRankingOf(const std::string& checkpoint,
                                                             const Preprocessor* preprocessor);

// `path`: a model file, a checkpoint, a directory of checkpoints or a run directory. Errors name
// it.
Result<std::shared_ptr<const Model>> LoadModel(const std::string& path,
                                               const ModelSourceOptions& options);

}  // namespace dslide
