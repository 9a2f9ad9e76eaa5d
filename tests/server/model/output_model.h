// Output layers with a random batch, and the loss on the active sets that they chose: the model of
// server/README.md in double, written from the definitions.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "server/model/output_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide {

constexpr uint32_t kOutputSamples = 5;

// What a sample is scored against: neuron -> how many neurons it stands for.
using Weights = std::map<uint32_t, double>;

// Output layers that share the neurons, and the loss on the active sets that they chose.
class OutputModel {
 public:
  // `weights` of the samples; none: all are 1.
  OutputModel(const Config& config, uint32_t shards, std::vector<float> weights = {});

  // Parameters in double: [N x (H + 1)], the bias last.
  std::vector<double> Parameters();

  // Runs query and gradient; keeps the active sets. Returns dL/dh and checks the reply's losses.
  Matrix Step();

  // The mean of weight times loss on the chosen active sets at parameters w and activations h.
  double Loss(const std::vector<double>& w, const std::vector<double>& h) const;

  std::vector<double> Hidden() const;

 private:
  // From the definition in server/README.md (The active set), executor by executor.
  Weights WeightsOf(uint32_t i) const;
  void AddHashed(uint32_t i, size_t executor, Weights* weights) const;
  // The probability with which a sample draws each row of an executor's tables.
  std::vector<double> CandidateChances(uint32_t i, size_t executor) const;

  double SampleLoss(uint32_t i, const std::vector<double>& w, const std::vector<double>& h) const;

  Config config_;
  Random random_;
  std::vector<std::unique_ptr<OutputLayer>> layers_;
  std::vector<OutputBatch> batches_;
  std::vector<Weights> weights_;  // [B]
  ActiveQuery query_;
};

}  // namespace dslide
