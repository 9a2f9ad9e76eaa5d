// A batch with hand-made columns for one scorer, and what the model of server/README.md says of it:
// in double, from the definitions.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "server/model/scorer.h"
#include "tests/server/support/test_batches.h"

namespace dslide {

// Whom a sample is scored against, in local rows. `elsewhere`: its labels on other servers. A hit
// stands for kHitWeight neurons, a draw for WeightOfDraw().
struct ScorerSample {
  std::vector<uint32_t> labels;
  std::vector<uint32_t> hits;
  uint32_t elsewhere = 0;
};

struct ScorerResult {
  ActiveReply reply;
  std::vector<float> log_normaliser;
  Matrix hidden_gradient;
  std::vector<std::vector<float>> after;  // [rows] weights, then the bias
};

class ScorerModel {
 public:
  static constexpr float kRate = 1.0f;  // SGD
  static constexpr float kHitWeight = 1.75f;
  static float WeightOfDraw(uint32_t row) { return 1.0f + 0.5f * static_cast<float>(row % 5); }

  // The neurons of `slots` live here.
  ScorerModel(const Config& config, const std::vector<uint32_t>& slots);

  // Local rows with a neuron.
  const std::vector<uint32_t>& rows() const { return rows_; }

  // The columns: labels, hits, then draws. `own_only`: sharing = sample, otherwise every label is
  // every sample's column, and no sample has hits.
  void SetBatch(std::vector<ScorerSample> samples, const std::vector<uint32_t>& draws,
                bool own_only);

  // One forward and backward pass of the scorer under test over this batch, from the initial
  // weights, in the precision of `config`.
  ScorerResult Run(const Config& config, const std::vector<double>& log_normaliser) const;

  // log of the sum of exponentials over all servers, where the others have `others` times as much.
  std::vector<double> LogNormalisers(double others) const;

  // Compares a run with the definition. `share`: relative error of a product with its operands'
  // rounding; `ulp`: of a stored weight.
  void Check(const ScorerResult& result, const std::vector<double>& log_normaliser, double share,
             double ulp = 0) const;

 private:
  using AllParameters = std::vector<std::vector<double>>;  // [rows][H + 1]

  uint32_t ColumnOf(uint32_t row);

  static uint32_t Total(const ScorerSample& sample);

  OutputRows MakeRows(const Config& config) const;

  std::vector<std::vector<float>> Parameters(Layer* layer) const;

  AllParameters InitialParameters() const;

  // The rows that a sample is scored against, each with the number of neurons it stands for.
  std::map<uint32_t, double> WeightsOf(size_t i) const;

  double Logit(const AllParameters& w, size_t i, uint32_t row) const;

  // The absolute values of a logit's terms.
  double Terms(const AllParameters& w, size_t i, uint32_t row) const;

  static bool Within(const float* got, const std::vector<double>& expected,
                     const std::vector<double>& error);

  Config config_;
  std::vector<SlotId> slots_;
  std::vector<uint32_t> rows_;
  std::vector<ScorerSample> samples_;
  std::set<uint32_t> draws_;
  std::set<uint32_t> labels_;
  bool own_only_ = false;
  ActiveColumns columns_;
  Matrix hidden_;
};

// Configurations of a model with sampled neurons, of both losses, both tails, and with and without
// label smoothing.
void ForEachLoss(uint32_t labels, uint32_t hidden, Sharing sharing,
                 const std::function<void(const Config&)>& check);

}  // namespace dslide
