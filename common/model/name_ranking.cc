#include "common/model/name_ranking.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/data/measures/logit_adjustment.h"

namespace dslide {
namespace {

bool Allows(const LabelFilter* filter, uint32_t label) {
  if (filter == nullptr) return true;
  const std::vector<uint32_t>* allowed = filter->Allowed();
  if (allowed != nullptr && !std::ranges::binary_search(*allowed, label)) return false;
  return !filter->Denies(label);
}

}  // namespace

void NameRanking::AppendRow(const RankedLabels& by_model, size_t row, SampleNames names,
                            const LabelFilter* filter, size_t k, RankedLabels* to) const {
  const TopKReply& best = by_model.best;
  const auto scores =
      std::span(best.scores).subspan(best.offsets[row], best.offsets[row + 1] - best.offsets[row]);
  std::vector<RerankedLabel> ranked = reranker_->Rank(best.Ids(row), scores, names);
  std::erase_if(ranked, [&](const RerankedLabel& r) { return !Allows(filter, r.label); });
  if (rare_weight_ != 0) {
    const std::vector<uint32_t>& samples = reranker_->facts().samples();
    for (RerankedLabel& r : ranked) {
      r.score -= rare_weight_ * LogOfCount(samples[r.label]);
      r.probability = 1 / (1 + std::exp(-r.score));
    }
    std::ranges::stable_sort(ranked, std::ranges::greater(), &RerankedLabel::score);
  }
  ranked.resize(std::min(k, ranked.size()));
  for (const RerankedLabel& r : ranked) {
    to->best.ids.push_back(r.label);
    to->best.scores.push_back(r.score);
    to->probabilities.push_back(r.probability);
  }
  to->best.offsets.push_back(static_cast<uint32_t>(to->best.ids.size()));
}

}  // namespace dslide
