// The neurons with the largest logits for the mean activation: they score high for most samples.
//
// h is positive and has a large common mean mu, so z_j = w_j . h + b_j is, for many samples, mostly
// w_j . mu + b_j: the samples of a batch share most of their best neurons (linux-calls: the true
// top 10 of 128 samples are 420 distinct neurons of 205,419; the 1,000 best for mu hold 78% of
// them). Hash tables cannot see this: they rank by angle, without the bias and the norms, and 20
// candidates a sample hold 15%. So the popular neurons are taken first, by exact score, and hashing
// adds each sample's own. (A cheap form of splitting off the common direction before a
// maximum-inner-product search: Shrivastava, Li: "Asymmetric LSH (ALSH) for Sublinear Time Maximum
// Inner Product Search", NIPS 2014, shows why norms break plain LSH.)
//
// Each batch refreshes the scores of one slice of the rows. There are at least kMinSlices slices,
// and enough for a slice to have at most kSliceRows rows over the whole model. A score lags by at
// most as many batches as there are slices.
// Owned by one executor thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/messages.h"
#include "server/rows/layer.h"

namespace dslide {

// The mean of each column of a batch's activations.
std::vector<float> ColumnMeans(const Matrix& x, const Kernels& kernels);

class PopularNeurons {
 public:
  static constexpr uint32_t kMinSlices = 16;
  static constexpr uint32_t kSliceRows = 8192;  // of the whole model

  // Keeps the `count` best rows of `layer`. `layer` and `kernels` must outlive this object.
  PopularNeurons(uint32_t count, const Layer& layer, const Kernels& kernels);

  // Call when the layer's map changed; `count` is this executor's new share. If the attached slots
  // or the count changed, scores the rows that have no score and chooses rows() again by all
  // scores.
  void FollowMap(uint32_t count);

  // Moves the running mean towards that of a batch's activations ([H]), scores the next slice
  // against it and, after the last slice, chooses rows() again.
  void Follow(std::span<const float> batch_mean);

  // The state that later choices depend on, beside the layer.
  struct State {
    std::vector<float> mean;     // [H], empty before the first Follow()
    std::vector<uint32_t> rows;  // rows()
    uint32_t next_slice = 0;
    std::vector<float> scores;  // of the rows in slices before next_slice
  };
  State Save() const;
  // False, without any change, if the state does not fit the layer. One of another number of
  // popular neurons is not taken over: they are chosen anew.
  bool Restore(const State& state);

  // Local rows in ascending order, none before the first Follow().
  std::span<const uint32_t> rows() const { return rows_; }

 private:
  void MoveMean(std::span<const float> batch_mean);
  void Score(uint32_t slice);
  float ScoreOf(uint32_t row) const;
  void Choose();
  // The first row of a slice.
  uint32_t SliceBegin(uint32_t slice) const {
    return static_cast<uint32_t>(uint64_t{layer_.map().rows()} * slice / slices_);
  }

  const Layer& layer_;
  const Kernels& kernels_;
  uint32_t count_;
  const uint32_t slices_;  // of the rows; one is scored per batch
  uint32_t next_ = 0;
  std::vector<SlotId> slots_here_;  // rows() were chosen from these
  std::vector<float> mean_;         // [H], empty before the first Follow()
  std::vector<float> scores_;       // [rows] -infinity where there is no neuron
  std::vector<uint32_t> rows_;
};

}  // namespace dslide
