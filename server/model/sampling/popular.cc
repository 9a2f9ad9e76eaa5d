#include "server/model/sampling/popular.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace dslide {
namespace {

constexpr float kNoNeuron = -std::numeric_limits<float>::infinity();
constexpr float kNewShare = 0.05f;  // of a batch in the running mean, which spans about 20 batches

}  // namespace

std::vector<float> ColumnMeans(const Matrix& x, const Kernels& kernels) {
  std::vector<float> means(x.cols);
  for (uint32_t i = 0; i < x.rows; ++i) {
    kernels.axpy(x.cols, 1.0f / static_cast<float>(x.rows), x.row(i), means.data());
  }
  return means;
}

PopularNeurons::PopularNeurons(uint32_t count, const Layer& layer, const Kernels& kernels)
    : layer_(layer),
      kernels_(kernels),
      count_(std::min(count, layer.map().size())),
      slices_(std::max(kMinSlices, (layer.map().all_rows() + kSliceRows - 1) / kSliceRows)),
      slots_here_(layer.map().owned().begin(), layer.map().owned().end()) {}

void PopularNeurons::FollowMap(uint32_t count) {
  const SlotMap& map = layer_.map();
  const uint32_t count_before = std::exchange(count_, std::min(count, map.size()));
  const bool same_slots = std::ranges::equal(slots_here_, map.owned());
  slots_here_.assign(map.owned().begin(), map.owned().end());
  if (mean_.empty() || count_ == 0) {
    mean_.clear();
    scores_.clear();
    rows_.clear();
    next_ = 0;
    return;
  }
  // The round continues at the same row, or a little before it.
  next_ = static_cast<uint32_t>(uint64_t{scores_.size()} * next_ / map.rows());
  scores_.resize(map.rows(), kNoNeuron);
  if (same_slots && count_ == count_before) return;
  for (uint32_t row = 0; row < map.rows(); ++row) {
    if (map.Global(row) == SlotMap::kNone) {
      scores_[row] = kNoNeuron;
    } else if (scores_[row] == kNoNeuron) {
      scores_[row] = ScoreOf(row);
    }
  }
  Choose();
}

void PopularNeurons::Follow(std::span<const float> batch_mean) {
  if (count_ == 0) return;
  const bool first = mean_.empty();
  MoveMean(batch_mean);
  if (first) {
    scores_.resize(layer_.map().rows());
    for (uint32_t slice = 0; slice < slices_; ++slice) Score(slice);
    Choose();
    return;
  }
  Score(next_);
  next_ = (next_ + 1) % slices_;
  if (next_ == 0) Choose();
}

PopularNeurons::State PopularNeurons::Save() const {
  State state{mean_, rows_, next_, {}};
  state.scores.assign(scores_.begin(), scores_.begin() + SliceBegin(next_));
  return state;
}

bool PopularNeurons::Restore(const State& state) {
  const bool followed = !state.mean.empty();
  if (state.mean.size() != (followed ? layer_.dim() : 0)) return false;
  if (followed && state.rows.size() != count_) return true;
  if (state.next_slice >= slices_ || (!followed && state.next_slice != 0)) return false;
  if (state.scores.size() != SliceBegin(state.next_slice)) return false;
  if (!followed && !state.rows.empty()) return false;
  for (size_t i = 0; i < state.rows.size(); ++i) {
    const uint32_t row = state.rows[i];
    if (row >= layer_.map().rows() || layer_.map().Global(row) == SlotMap::kNone) return false;
    if (i > 0 && row <= state.rows[i - 1]) return false;
  }
  mean_ = state.mean;
  rows_ = state.rows;
  next_ = state.next_slice;
  scores_ = state.scores;
  if (followed) scores_.resize(layer_.map().rows(), kNoNeuron);
  return true;
}

void PopularNeurons::MoveMean(std::span<const float> batch_mean) {
  if (mean_.empty()) mean_.assign(batch_mean.begin(), batch_mean.end());
  for (size_t d = 0; d < mean_.size(); ++d) mean_[d] += kNewShare * (batch_mean[d] - mean_[d]);
}

void PopularNeurons::Score(uint32_t slice) {
  for (uint32_t row = SliceBegin(slice); row < SliceBegin(slice + 1); ++row) {
    scores_[row] = layer_.map().Global(row) == SlotMap::kNone ? kNoNeuron : ScoreOf(row);
  }
}

float PopularNeurons::ScoreOf(uint32_t row) const {
  return layer_.Dot(row, mean_.data()) + layer_.bias(row);
}

void PopularNeurons::Choose() {
  rows_.resize(scores_.size());
  std::iota(rows_.begin(), rows_.end(), 0u);
  const auto better = [&](uint32_t a, uint32_t b) {
    return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
  };
  std::nth_element(rows_.begin(), rows_.begin() + count_ - 1, rows_.end(), better);
  rows_.resize(count_);
  std::sort(rows_.begin(), rows_.end());
}

}  // namespace dslide
