#include "tools/dslide/data/statistics.h"

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

// Both ascend.
bool HaveOneInCommon(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) return true;
    if (a[i] < b[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return false;
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double Histogram::mean() const {
  double sum = 0;
  uint64_t count = 0;
  for (const auto& [value, times] : counts_) {
    sum += static_cast<double>(value) * static_cast<double>(times);
    count += times;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double Histogram::median() const {
  uint64_t count = 0;
  for (const auto& [value, times] : counts_) count += times;
  if (count == 0) return 0;
  // The mean of the two in the middle, which are one if the count is odd.
  double sum = 0;
  for (const uint64_t place : {(count - 1) / 2, count / 2}) {
    uint64_t before = 0;
    for (const auto& [value, times] : counts_) {
      before += times;
      if (place >= before) continue;
      sum += static_cast<double>(value);
      break;
    }
  }
  return sum / 2;
}

// Three times as many, beyond what chance explains; or, where most samples share labels anyway,
// half of the pairs that would not are gone.
bool Neighbours::sorted() const {
  constexpr uint64_t kLeastPairs = 100;
  if (pairs < kLeastPairs) return false;
  const double n = static_cast<double>(pairs);
  const double chance = 4 * std::sqrt((anywhere + 1 / n) / n);
  return next_to_each_other > 3 * anywhere + 0.01 + chance ||
         (next_to_each_other > anywhere + 0.1 && 1 - next_to_each_other < (1 - anywhere) / 2);
}

void Statistics::AddWeight(float weight) {
  WeightSums& w = weights_;
  w.least = weights_seen_ == 0 ? weight : std::min(w.least, weight);
  w.most = std::max(w.most, weight);
  w.sum += double{weight};
  w.others += weight == 1.0f ? 0 : 1;
  w.zeros += weight == 0.0f ? 1 : 0;
  ++weights_seen_;
}

void Statistics::Add(uint64_t hash, uint64_t length, std::span<const uint32_t> labels) {
  ++samples_;
  lengths_.Add(length);
  labels_a_sample_.Add(labels.size());
  if (length == 0) {
    ++without_features_;
  } else {
    hashes_.push_back(hash);
  }
  if (labels.empty()) ++without_labels_;
  label_entries_ += labels.size();
  for (const uint32_t label : labels) ++counts_[label];
  if (!labels.empty() && !before_.empty()) {
    ++pairs_;
    alike_ += HaveOneInCommon(before_, labels) ? 1 : 0;
  }
  before_.assign(labels.begin(), labels.end());
  if (!labels.empty()) Keep(labels);
}

void Statistics::Add(uint64_t hash, uint64_t length, std::span<const std::string> labels) {
  labels_.clear();
  for (const std::string& label : labels) labels_.push_back(NumberOf(label));
  std::ranges::sort(labels_);
  Add(hash, length, labels_);
}

uint32_t Statistics::NumberOf(const std::string& name) {
  const auto [entry, is_new] = numbers_.emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(&entry->first);
  return entry->second;
}

std::vector<std::string> Statistics::LabelNames() const {
  std::vector<std::string> names;
  for (const std::string* name : names_) names.push_back(*name);
  return names;
}

std::string Statistics::NameOf(uint32_t label) const {
  return names_.empty() ? std::to_string(label) : *names_[label];
}

// Reservoir sampling: each labelled sample is kept with the same probability (Vitter: "Random
// sampling with a reservoir", 1985, algorithm R).
void Statistics::Keep(std::span<const uint32_t> labels) {
  ++labelled_;
  if (kept_.size() < kKept) {
    kept_.emplace_back(labels.begin(), labels.end());
  } else if (const uint64_t place = random_.Below(labelled_); place < kKept) {
    kept_[place].assign(labels.begin(), labels.end());
  }
}

uint64_t Statistics::Duplicates() const {
  std::vector<uint64_t> sorted = hashes_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::unique(sorted);
  return twice.size();
}

Histogram Statistics::SamplesALabel() const {
  Histogram histogram;
  for (const auto& [label, samples] : counts_) histogram.Add(samples);
  return histogram;
}

std::array<TailBand, 5> Statistics::Tail() const {
  std::array<TailBand, 5> bands = {
      {{1, 1, 0, 0}, {2, 4, 0, 0}, {5, 19, 0, 0}, {20, 99, 0, 0}, {100, 0, 0, 0}}};
  for (const auto& [label, samples] : counts_) {
    TailBand* band = bands.data();
    while (band->to != 0 && samples > band->to) ++band;
    ++band->labels;
    band->entries += samples;
  }
  return bands;
}

std::vector<FrequentLabel> Statistics::MostFrequent(size_t count) const {
  std::vector<std::pair<uint64_t, uint32_t>> labels;
  for (const auto& [label, samples] : counts_) labels.emplace_back(samples, label);
  count = std::min(count, labels.size());
  const auto end = labels.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(labels.begin(), end, labels.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<FrequentLabel> most;
  for (auto label = labels.begin(); label != end; ++label) {
    most.push_back({NameOf(label->second), label->first});
  }
  return most;
}

Neighbours Statistics::NeighboursOf() const {
  constexpr uint64_t kDraws = 20'000;
  Random random(1);
  uint64_t alike = 0;
  uint64_t drawn = 0;
  for (uint64_t i = 0; i < kDraws && kept_.size() > 1; ++i) {
    const uint64_t a = random.Below(kept_.size());
    const uint64_t b = random.Below(kept_.size() - 1);
    alike += HaveOneInCommon(kept_[a], kept_[b < a ? b : b + 1]) ? 1 : 0;
    ++drawn;
  }
  return {Share(alike_, pairs_), Share(alike, drawn), pairs_};
}

}  // namespace dslide
