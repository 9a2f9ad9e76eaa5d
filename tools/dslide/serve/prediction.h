// What clients of `dslide serve` ask, and what they get, whatever the dialect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/app/limits.h"
#include "common/model/ranker.h"
#include "common/text/records/record.h"

namespace dslide {

struct AskedSample {
  std::string id;  // the client's, may be empty
  Record record;   // its text
  // Of a model whose samples are numbers, or of one that has words: feature ids with their values,
  // instead of a text. Ids ascend.
  std::optional<std::vector<std::pair<uint32_t, float>>> features;
  // If the features were given as a vector: its length, which must be the model's D. Its zeros are
  // no features.
  std::optional<size_t> vector_length;
};

// Appends value `value` of a vector; its place is the number of values before it. REQUIRES a sample
// of no text.
inline void AddVectorValue(float value, AskedSample* sample) {
  if (!sample->features) sample->features.emplace();
  const size_t place = sample->vector_length.value_or(0);
  if (value != 0) sample->features->push_back({static_cast<uint32_t>(place), value});
  sample->vector_length = place + 1;
}

// An output tensor that a client of the Open Inference Protocol requests.
struct WantedOutput {
  std::string name;
  bool binary = false;  // as binary data behind the JSON
};

inline constexpr size_t kMostUnknownLabels = 100;

struct PredictionRequest {
  std::vector<AskedSample> samples;
  uint32_t k = 5;
  float threshold = 0;                            // labels of a lower probability are left out
  std::optional<ModelSearch> search;              // nullopt: the server's
  std::optional<std::vector<std::string>> allow;  // names: only these labels; none: all
  std::vector<std::string> deny;
  // Names in `allow` and `deny` that the model lacks, each once: the first kMostUnknownLabels in
  // order, and how many more there are. The service sets them.
  std::vector<std::string> unknown_labels;
  size_t unknown_left_out = 0;
  bool exclude_own = false;           // labels that the sample has as features or words already
  std::string id;                     // of the request, for dialects that repeat it
  std::vector<WantedOutput> outputs;  // of the Open Inference Protocol, in this order
};

struct PredictedLabel {
  uint32_t label = 0;
  float score = 0;  // the logit
  float probability = 0;
};

using Predictions = std::vector<std::vector<PredictedLabel>>;  // of each sample, best first

// An answer that is no prediction.
struct Refusal {
  unsigned status = 400;  // of HTTP
  std::string message;    // one line
};

}  // namespace dslide
