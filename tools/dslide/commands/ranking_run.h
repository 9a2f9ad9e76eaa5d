// What `dslide evaluate` and `dslide predict` have in common: a trained model ranks the labels of
// the samples of a file, without a cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/model/ranker.h"
#include "common/text/samples.h"
#include "common/wire/messages.h"
#include "tools/dslide/model/format_options.h"
#include "tools/dslide/model/inference.h"
#include "tools/dslide/model/model_source.h"

namespace dslide {

struct RankingTask {
  std::string checkpoint, data, output;
  std::string label_names;       // "": the model's own
  NamedFormat format;            // of the data
  uint32_t top_k = 5;            // labels of a sample that are written
  uint32_t depth = 5;            // labels of a sample that are ranked, at least top_k
  std::optional<Search> search;  // nullopt: what is the cheapest on the first samples
  bool json = false;
  // Whether predictions have probabilities, which the model as it is served computes. Unless
  // `search` is set, all labels are scored then.
  bool probabilities = false;
  RankingChoice ranking;
  bool exclude_own_features = false;
  bool wants_labels = false;  // data without labels is refused
};

// Declares the options of both commands.
CommandLine RankingCommandLine(const std::string& name, const std::string& summary);
// Errors (kBadInput) name the option.
Result<RankingTask> RankingTaskFrom(const ParsedArguments& arguments);

// Samples of the data file, a row each.
struct SampleBatch {
  SparseRows features;
  SparseRows labels;
  NamesOfSamples names;             // if the model's name ranking wants them
  std::vector<std::string> ids;     // each sample's id as JSON, or ""
  std::vector<std::string> errors;  // why each row's record cannot be read, or ""
};

// A model and the samples of a task, which fit each other. One thread uses an object.
class RankingRun {
 public:
  // Reads the checkpoint, and the beginning of the data. Errors name the path.
  static Result<RankingRun> Open(RankingTask task);

  const RankingTask& task() const { return task_; }
  const Config& config() const { return model_->config(); }
  const Inference& model() const { return *model_; }

  // Ranks all samples; `each` sees every batch with its predictions, the best task().depth labels
  // of each row. Sets task().search, and says on standard error which one was chosen.
  Status RankAll(const std::function<void(const SampleBatch&, const RankedLabels&)>& each);
  double seconds() const { return seconds_; }  // that RankAll() took
  // Records that RankAll() left out.
  const UnreadableRecords& unreadable() const { return reader_.unreadable(); }
  const FirstLook& look() const { return reader_.look(); }

 private:
  RankingRun(RankingTask task, std::unique_ptr<Inference> model, SampleReader reader)
      : task_(std::move(task)), model_(std::move(model)), reader_(std::move(reader)) {}

  Result<SampleBatch> NextBatch();
  Result<Search> CheapestSearch(const SampleBatch& batch);
  Result<RankedLabels> RankByModel(const SparseRows& features, uint32_t depth);
  Result<RankedLabels> Rank(const SampleBatch& batch);
  bool ExcludesOwnFeatures() const;
  std::string UnreadableNote() const;

  RankingTask task_;
  std::unique_ptr<Inference> model_;
  SampleReader reader_;
  double seconds_ = 0;
};

}  // namespace dslide
