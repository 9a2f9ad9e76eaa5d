// A trained model in this process, without a cluster: a checkpoint's rows in executors, one per
// core, or a model file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/model/name_ranking.h"
#include "common/model/ranker.h"
#include "common/text/preprocessor.h"
#include "common/text/samples.h"
#include "server/executor/executor_pool.h"

namespace dslide {

class Inference {
 public:
  // `path`: a model file, a checkpoint, a directory of checkpoints or a run directory. Any number
  // of servers may have written it. Without options the rows are as they were trained.
  static Result<std::unique_ptr<Inference>> Load(const std::string& path);
  struct Options {
    std::string label_names;  // a file in place of the model's own names; of text an error
    // The model as `dslide serve` has it: a checkpoint becomes a model with rows in bf16.
    bool as_served = false;
    std::optional<float> rare;  // ModelSourceOptions::rare
    bool by_model = false;      // ModelSourceOptions::by_model
  };
  static Result<std::unique_ptr<Inference>> Load(const std::string& path, const Options& options);

  const Config& config() const { return config_; }
  const Manifest& manifest() const { return manifest_; }  // of a checkpoint
  // The checkpoint's directory, or the file.
  const std::string& directory() const { return directory_; }
  // Null: the model's samples are numbers.
  const Preprocessor* preprocessor() const { return preprocessor_.get(); }
  ModelInput input() const {
    return {preprocessor_.get(), {config_.model.features, config_.model.labels}};
  }
  // A label's name, or its number; also of one of text that ReadLabels() gave an id from N on.
  std::string LabelName(uint32_t label) const;
  // By id; null: labels are numbers.
  const std::vector<std::string>* label_names() const {
    if (preprocessor_ != nullptr) return &preprocessor_->label_names();
    return label_names_.empty() ? nullptr : &label_names_;
  }
  // The identifiers in the vocabulary, by label id; null without a vocabulary.
  const std::vector<std::string>* label_uris() const {
    return preprocessor_ == nullptr ? nullptr : preprocessor_->label_uris();
  }

  // Null: the model alone ranks labels. Rank() and RankWithProbabilities() do so in any case.
  const NameRanking* name_ranking() const { return name_ranking_.get(); }

  // The ways that it can be searched by, exact first.
  std::vector<Search> searches() const;
  // The best k labels of each sample. Feature ids must be below D. With `exclude_own_features`
  // the labels are left out that are in the sample already: label i where it has feature i, of a
  // model of text those whose name is a word of it. A model file has no hash tables: kLsh is
  // an error.
  Result<TopKReply> Rank(const SparseRows& features, uint32_t k, Search search,
                         bool exclude_own_features);
  // As Rank(), with probabilities (RankedLabels). REQUIRES a model that is loaded as served, and
  // not kLsh.
  Result<RankedLabels> RankWithProbabilities(const SparseRows& features, uint32_t k, Search search,
                                             bool exclude_own_features);

  // The activations h of samples, [rows x H], whose values are as in data files: train.normalize is
  // applied here. REQUIRES a checkpoint, and feature ids below D.
  Result<Matrix> Embed(const SparseRows& features);

  const std::shared_ptr<const Preprocessor>& shared_preprocessor() const { return preprocessor_; }
  // Calls input(feature, weights) for every input row, D for the bias, behind it those of dense
  // layers, and neuron(label, weights, bias) for every neuron; weights are [H_1] and [H_L] floats.
  // Executors do so at once, in threads of theirs. REQUIRES a checkpoint.
  void ForEachRow(const std::function<void(uint32_t, const float*)>& input,
                  const std::function<void(uint32_t, const float*, float)>& neuron);

 private:
  Inference() = default;

  static std::unique_ptr<Inference> Of(std::shared_ptr<const Model> model, const std::string& path);
  static Result<std::unique_ptr<Inference>> LoadAsServed(const std::string& path,
                                                         const Options& options);
  static Result<std::unique_ptr<Inference>> LoadCheckpoint(const std::string& path,
                                                           bool with_label_names);
  std::vector<uint32_t> OwnLabels(std::span<const uint32_t> features) const;
  Result<RankedLabels> RankByFile(const SparseRows& features, uint32_t k, Search search,
                                  bool exclude_own_features, bool probabilities);

  Status LoadDense();
  Status AdjustLogits(float rare);

  // Runs a request on all executors and combines their replies.
  Result<Body> Call(const Body& request);

  Config config_;
  Manifest manifest_;
  std::string directory_;
  std::shared_ptr<const Preprocessor> preprocessor_;
  std::vector<std::string> label_names_;  // of a model of numbers
  std::shared_ptr<const NameRanking> name_ranking_;
  // Of a checkpoint:
  std::unique_ptr<ExecutorPool> pool_;
  std::unique_ptr<const DenseWeights> dense_;  // null: no dense layers
  // Of a model file: one for each core.
  std::vector<Ranker> rankers_;
};

}  // namespace dslide
