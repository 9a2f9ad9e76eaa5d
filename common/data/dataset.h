// Samples in memory: compressed sparse rows of labels and features.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dslide {

// A sample's weight multiplies its loss in training: from 0, no effect, to this. More would leave
// the range of the fixed-point sums of synchronous training.
inline constexpr float kMostSampleWeight = 1000;
inline bool IsSampleWeight(double weight) { return weight >= 0 && weight <= kMostSampleWeight; }

// Of a feature's value. Servers take a worker for a liar that sends much more.
inline constexpr float kMostFeatureValue = 1e9f;

// One sample, a view into a Dataset or a batch. Feature ids and label ids ascend.
struct SampleView {
  std::span<const uint32_t> labels;
  std::span<const uint32_t> features;
  std::span<const float> values;  // values[i] belongs to features[i]
  float weight = 1.0f;
};

class TokenSamples;

// N samples with D features and L labels. Movable; immutable once read.
//
// The samples of words and sessions are not stored but drawn anew in each epoch (token_samples.h):
// only DataOrder shows them.
class Dataset {
 public:
  Dataset() = default;
  // REQUIRES feature ids < num_features and label ids < num_labels in every added sample.
  Dataset(uint32_t num_features, uint32_t num_labels)
      : num_features_(num_features), num_labels_(num_labels) {}

  // One whose samples are drawn from these tokens.
  Dataset(uint32_t num_features, uint32_t num_labels, std::shared_ptr<const TokenSamples> drawn);

  // Null: the samples are stored.
  const TokenSamples* drawn() const { return drawn_.get(); }

  // For a file that does not tell them before its end.
  void SetSizes(uint32_t num_features, uint32_t num_labels) {
    num_features_ = num_features;
    num_labels_ = num_labels;
  }

  void Add(const SampleView& sample) {
    labels_.insert(labels_.end(), sample.labels.begin(), sample.labels.end());
    features_.insert(features_.end(), sample.features.begin(), sample.features.end());
    values_.insert(values_.end(), sample.values.begin(), sample.values.end());
    if (sample.weight != 1.0f || has_weights()) {
      weights_.resize(size(), 1.0f);
      weights_.push_back(sample.weight);
    }
    label_ends_.push_back(labels_.size());
    feature_ends_.push_back(features_.size());
  }

  // Removes the labels of which keep(label) is false from all samples; L stays.
  template <typename Keep>
  void KeepLabels(const Keep& keep) {
    size_t kept = 0;
    size_t begin = 0;
    for (size_t& end : label_ends_) {
      for (size_t i = begin; i < end; ++i) {
        if (keep(labels_[i])) labels_[kept++] = labels_[i];
      }
      begin = end;
      end = kept;
    }
    labels_.resize(kept);
  }

  // The same samples as those of a model that may have more features and labels.
  void Widen(uint32_t num_features, uint32_t num_labels) {
    num_features_ = std::max(num_features_, num_features);
    num_labels_ = std::max(num_labels_, num_labels);
  }

  size_t size() const { return drawn_ ? drawn_size_ : label_ends_.size(); }
  // The last samples are names of labels, not of the data's file.
  void SetNames(size_t count) { names_ = count; }
  size_t names() const { return names_; }
  size_t records() const { return size() - names_; }  // the samples before them
  uint32_t num_features() const { return num_features_; }
  uint32_t num_labels() const { return num_labels_; }
  // Whether some sample has another weight than 1.
  bool has_weights() const { return !weights_.empty(); }
  // Of samples that are stored, here and below.
  size_t num_label_entries() const { return labels_.size(); }
  size_t num_feature_entries() const { return features_.size(); }

  SampleView operator[](size_t i) const {
    const size_t lb = i == 0 ? 0 : label_ends_[i - 1];
    const size_t fb = i == 0 ? 0 : feature_ends_[i - 1];
    return {{labels_.data() + lb, label_ends_[i] - lb},
            {features_.data() + fb, feature_ends_[i] - fb},
            {values_.data() + fb, feature_ends_[i] - fb},
            has_weights() ? weights_[i] : 1.0f};
  }

 private:
  uint32_t num_features_ = 0;
  uint32_t num_labels_ = 0;
  std::vector<uint32_t> labels_;
  std::vector<uint32_t> features_;
  std::vector<float> values_;
  std::vector<size_t> label_ends_;    // [size()]
  std::vector<size_t> feature_ends_;  // [size()]
  std::vector<float> weights_;        // [size()], or empty: all are 1
  std::shared_ptr<const TokenSamples> drawn_;
  size_t drawn_size_ = 0;
  size_t names_ = 0;
};

}  // namespace dslide
