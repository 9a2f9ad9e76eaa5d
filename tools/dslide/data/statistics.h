// Statistics of a data file, counted in one pass. Memory: 12 bytes a sample, a number a label, and
// the labels' names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/random.h"
#include "common/data/measures/sample_lengths.h"

namespace dslide {

// How often each of some numbers occurs.
class Histogram {
 public:
  void Add(uint64_t value) { ++counts_[value]; }
  double mean() const;
  double median() const;
  uint64_t most() const { return counts_.empty() ? 0 : counts_.rbegin()->first; }

 private:
  std::map<uint64_t, uint64_t> counts_;
};

// Labels by the number of their samples: 1, 2-4, 5-19, 20-99, 100 and more.
struct TailBand {
  uint64_t from = 0;
  uint64_t to = 0;  // including; 0: no end
  uint64_t labels = 0;
  uint64_t entries = 0;  // in samples
};

struct FrequentLabel {
  std::string name;
  uint64_t samples = 0;
};

// How often two samples have a label in common.
struct Neighbours {
  double next_to_each_other = 0;  // share of the pairs of neighbours in the file
  double anywhere = 0;            // of pairs drawn at random
  uint64_t pairs = 0;             // of neighbours; both have labels
  // Far more neighbours than others have one: no part of the file stands for the whole.
  bool sorted() const;
};

// Of the samples' weights.
struct WeightSums {
  uint64_t others = 0;  // samples with another one than 1
  uint64_t zeros = 0;
  double sum = 0;
  float least = 0;
  float most = 0;
};

class Statistics {
 public:
  explicit Statistics(uint64_t seed = 1) : random_(seed) {}

  // Of a sample that Add() takes too.
  void AddWeight(float weight);
  void AddValues(std::span<const float> values) { value_lengths_.Add(values); }
  // A sample with `length` features or words. `hash`: of them.
  void Add(uint64_t hash, uint64_t length, std::span<const uint32_t> labels);
  // Labels by name, each once.
  void Add(uint64_t hash, uint64_t length, std::span<const std::string> labels);

  uint64_t samples() const { return samples_; }
  uint64_t without_labels() const { return without_labels_; }
  uint64_t without_features() const { return without_features_; }
  uint64_t label_entries() const { return label_entries_; }
  const WeightSums& weights() const { return weights_; }
  const SampleLengths& value_lengths() const { return value_lengths_; }
  // Samples whose features another one before them has, those without any left out.
  uint64_t Duplicates() const;
  const Histogram& lengths() const { return lengths_; }
  const Histogram& labels_a_sample() const { return labels_a_sample_; }
  // Labels that occur.
  uint64_t labels() const { return counts_.size(); }
  // The names of the labels that were added by name.
  std::vector<std::string> LabelNames() const;
  Histogram SamplesALabel() const;
  std::array<TailBand, 5> Tail() const;
  // The most frequent first.
  std::vector<FrequentLabel> MostFrequent(size_t count) const;
  Neighbours NeighboursOf() const;

 private:
  static constexpr size_t kKept = 4096;  // samples drawn from the file at random

  // Its number, which is given to the first that comes.
  uint32_t NumberOf(const std::string& name);
  std::string NameOf(uint32_t label) const;
  void Keep(std::span<const uint32_t> labels);

  Random random_;
  uint64_t samples_ = 0;
  uint64_t without_labels_ = 0;
  uint64_t without_features_ = 0;
  uint64_t label_entries_ = 0;
  WeightSums weights_;
  SampleLengths value_lengths_;
  uint64_t weights_seen_ = 0;
  std::vector<uint64_t> hashes_;
  Histogram lengths_;
  Histogram labels_a_sample_;
  std::unordered_map<uint32_t, uint64_t> counts_;  // by label
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> names_;  // keys of numbers_
  std::vector<uint32_t> labels_;           // of the sample that is added
  std::vector<uint32_t> before_;           // of the sample before
  uint64_t pairs_ = 0;                     // of neighbours with labels
  uint64_t alike_ = 0;                     // of these, with a label in common
  std::vector<std::vector<uint32_t>> kept_;
  uint64_t labelled_ = 0;  // samples
};

}  // namespace dslide
