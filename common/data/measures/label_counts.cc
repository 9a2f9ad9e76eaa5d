#include "common/data/measures/label_counts.h"

#include <algorithm>
#include <functional>
#include <map>

#include "common/base/check.h"
#include "common/data/token_samples.h"

namespace dslide {

std::vector<LabelCount> CountLabels(const Dataset& train, std::span<const uint32_t> without) {
  if (train.drawn() != nullptr) {
    const std::vector<uint64_t>& tokens = train.drawn()->counts();
    std::vector<LabelCount> counts;
    for (uint32_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id] > 0) counts.push_back({id, tokens[id]});
    }
    return counts;
  }
  std::vector<uint32_t> labels;
  labels.reserve(train.num_label_entries());
  auto skipped = without.begin();
  for (size_t i = 0; i < train.records(); ++i) {
    if (skipped != without.end() && *skipped == i) {
      ++skipped;
      continue;
    }
    labels.insert(labels.end(), train[i].labels.begin(), train[i].labels.end());
  }
  std::sort(labels.begin(), labels.end());
  std::vector<LabelCount> counts;
  for (auto first = labels.begin(); first != labels.end();) {
    const auto last = std::upper_bound(first, labels.end(), *first);
    counts.push_back({*first, static_cast<uint64_t>(last - first)});
    first = last;
  }
  return counts;
}

FrequencyBands::FrequencyBands(std::vector<LabelCount> counts)
    : counts_(std::move(counts)), known_(true) {
  std::map<uint64_t, uint64_t, std::greater<>> labels_of;  // by frequency, most frequent first
  uint64_t total = 0;
  for (const LabelCount& c : counts_) {
    labels_of[c.count]++;
    total += c.count;
  }
  uint64_t before = 0;  // occurrences of more frequent labels
  for (const auto& [frequency, labels] : labels_of) {
    const uint64_t here = frequency * labels;
    // The middle of the group lies in [0, T), so this is below kBands.
    const uint64_t band = (2 * before + here) * kBands / (2 * total);
    AddGroup(static_cast<Band>(band), frequency, labels);
    before += here;
  }
}

void FrequencyBands::AddGroup(Band band, uint64_t frequency, uint64_t labels) {
  Extent& extent = extents_[static_cast<size_t>(band)];
  extent.labels += labels;
  extent.occurrences += frequency * labels;
  extent.fewest = frequency;  // groups come in descending order
  extent.most = std::max(extent.most, frequency);
}

Band FrequencyBands::Of(uint32_t label) const {
  DSLIDE_CHECK(known_);
  const auto found = std::lower_bound(counts_.begin(), counts_.end(), label,
                                      [](const LabelCount& c, uint32_t l) { return c.label < l; });
  if (found == counts_.end() || found->label != label) return Band::kTail;
  for (const Band band : {Band::kHead, Band::kMiddle}) {
    const Extent& extent = ExtentOf(band);
    if (extent.labels > 0 && found->count >= extent.fewest) return band;
  }
  return Band::kTail;
}

const FrequencyBands::Extent& FrequencyBands::ExtentOf(Band band) const {
  DSLIDE_CHECK(known_);
  return extents_[static_cast<size_t>(band)];
}

}  // namespace dslide
