// A trained model in this process: a checkpoint's rows in executors, one per core, without a
// cluster.
#pragma once

#include <memory>
#include <string>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/text/preprocessor.h"
#include "common/text/samples.h"
#include "server/executor/executor_pool.h"

namespace dslide {

class Inference {
 public:
  // `path`: a checkpoint, a directory of checkpoints or a run directory. Any number of servers may
  // have written it.
  static Result<std::unique_ptr<Inference>> Load(const std::string& path);

  const Config& config() const { return config_; }
  const Manifest& manifest() const { return manifest_; }
  const std::string& directory() const { return directory_; }
  // Null: the model's samples are numbers.
  const Preprocessor* preprocessor() const { return preprocessor_.get(); }
  ModelInput input() const {
    return {preprocessor_.get(), {config_.model.features, config_.model.labels}};
  }
  // By id; null: labels are numbers.
  const std::vector<std::string>* label_names() const {
    return preprocessor_ == nullptr ? nullptr : &preprocessor_->label_names();
  }

  // The best k labels of each sample. Feature ids must be below D. With `exclude_own_features`
  // label i is left out where feature i is in the sample.
  Result<TopKReply> Rank(const SparseRows& features, uint32_t k, Search search,
                         bool exclude_own_features);

 private:
  Inference() = default;

  // Runs a request on all executors and combines their replies.
  Result<Body> Call(const Body& request);

  Config config_;
  Manifest manifest_;
  std::string directory_;
  std::shared_ptr<const Preprocessor> preprocessor_;
  std::unique_ptr<ExecutorPool> pool_;
};

}  // namespace dslide
