// Predictions for many samples at once, on all cores: the C++ half of the Python package.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/model/model.h"
#include "common/model/ranker.h"

namespace dslide {

// Compressed sparse rows of a caller.
struct NumberRows {
  std::span<const int64_t> offsets;  // [n + 1]
  std::span<const int32_t> ids;
  std::span<const float> values;  // [like ids]
};
// One JSON object for each sample, as in a file of JSON lines (common/text/records/record.h).
using JsonLines = std::vector<std::string>;
using Samples = std::variant<NumberRows, JsonLines>;

// Immutable; any number of threads may use it. Every call has threads of its own, with a Ranker
// each. Errors (kBadInput) name the sample, or the model file if it is damaged.
class Predictor {
 public:
  explicit Predictor(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  const Model& model() const { return *model_; }

  // Where results go, each [n x k], best first.
  struct Best {
    uint32_t* labels;
    float* logits;
    float* probabilities;
  };
  // Texts are ranked by the model's name ranking, if it has one. REQUIRES 0 < k <= the model's live
  // labels.
  Status Rank(const Samples& samples, uint32_t k, ModelSearch search, size_t threads,
              const Best& best) const;

  // The logits or the probabilities of all labels by the model alone, by kExact: [n x N]. Those of
  // labels that a stream has forgotten are -infinity or 0.
  Status ScoreAll(const Samples& samples, bool probabilities, size_t threads, float* scores) const;

 private:
  class Thread;

  // Calls take(first sample, ranking) for blocks of samples, from several threads. `by_names`:
  // whether the model's name ranking counts.
  template <typename Take>
  Status RankBlocks(const Samples& samples, const RankRequest& request, bool by_names,
                    size_t threads, const Take& take) const;

  std::shared_ptr<const Model> model_;
};

}  // namespace dslide
