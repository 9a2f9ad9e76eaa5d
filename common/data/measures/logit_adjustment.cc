#include "common/data/measures/logit_adjustment.h"

#include <utility>

namespace dslide {

LabelLogs::LabelLogs(const std::vector<LabelCount>& counts) {
  entries_.reserve(counts.size());
  for (const auto& [label, count] : counts) entries_.push_back({label, LogOfCount(count)});
}

float LabelLogs::operator[](uint32_t label) const {
  const auto found = std::ranges::lower_bound(entries_, label, {}, &Entry::label);
  return found != entries_.end() && found->label == label ? found->log : LogOfCount(0);
}

BiasShift::BiasShift(std::span<const uint32_t> counts, float weight)
    : counts_(counts), weight_(weight) {
  double sum = 0, occurrences = 0;
  for (const uint32_t count : counts) {
    sum += double{LogOfCount(count)} * count;
    occurrences += count;
  }
  mean_log_ = occurrences == 0 ? 0.0f : static_cast<float>(sum / occurrences);
}

std::vector<uint32_t> AdjustedRanking(std::span<const uint32_t> labels,
                                      std::span<const float> scores, const LabelLogs& logs,
                                      float weight, size_t count) {
  std::vector<std::pair<float, uint32_t>> order;  // negative score, label
  for (size_t i = 0; i < labels.size(); ++i) {
    order.emplace_back(weight * logs[labels[i]] - scores[i], labels[i]);
  }
  count = std::min(count, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<uint32_t> best;
  for (size_t i = 0; i < count; ++i) best.push_back(order[i].second);
  return best;
}

}  // namespace dslide
