// Synchronous training: what the batches of a step contribute, held until the step is committed.
//
// A batch counts once for each layer, whoever brings it: trained again it gives the same.
//
// Invariants: steps are held only after the first commit has told where the run begins, and only
// steps from committed() on.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/config/config.h"
#include "server/model/gradient_sums.h"
#include "server/rows/layer.h"

namespace dslide {

class StepSums {
 public:
  struct Batch {
    bool output = false;  // the layer's gradients are in the sums
    bool input = false;
    std::vector<uint32_t> rows;  // active rows
    std::vector<float> masses;   // [rows] by the samples
  };
  struct Step {
    GradientSums output;
    GradientSums input;
    std::map<BatchId, Batch> batches;
  };

  // `train`, `output` and `input` must outlive this.
  StepSums(const TrainConfig& train, uint64_t train_samples, const Layer& output,
           const Layer& input);

  // Steps that are committed; none before the first commit, and in asynchronous training.
  std::optional<uint64_t> committed() const { return committed_; }
  void SetCommitted(std::optional<uint64_t> committed) { committed_ = committed; }

  // Why a batch cannot be trained now; empty: its step is open.
  std::string WhyNotOpen(const BatchId& batch) const;
  // The sums of a batch's step. REQUIRES that no slot has come or gone since the step began.
  Step& StepOf(const BatchId& batch);
  // What a batch's mean gradient counts in the mean over its step.
  float ShareOfStep(const BatchId& batch, uint32_t samples) const;

  // The first step that is not committed. An error says what is missing from it. REQUIRES
  // committed().
  Result<const Step*> Next() const;
  // The first step that is not committed has been applied. REQUIRES that Next() has returned it.
  void Commit();

  // Drops all steps. Call when slots come or go.
  void Clear();
  bool holds() const { return !held_.empty(); }
  void CheckInvariants() const;

 private:
  uint64_t NumberOfStep(const BatchId& batch) const;

  const TrainConfig& train_;
  const uint64_t train_samples_;
  const Layer& output_;
  const Layer& input_;
  std::optional<uint64_t> committed_;
  std::map<uint64_t, std::unique_ptr<Step>> held_;  // by step
  std::vector<std::unique_ptr<Step>> spare_;        // empty ones, of the present rows
};

}  // namespace dslide
