#include "common/data/measures/label_tallies.h"

#include <algorithm>
#include <functional>

#include "common/base/check.h"
#include "common/data/measures/ranking_terms.h"

namespace dslide {

LabelTallies::LabelTallies(std::vector<uint32_t> cutoffs) : cutoffs_(std::move(cutoffs)) {
  DSLIDE_CHECK(!cutoffs_.empty() && cutoffs_.front() > 0);
  DSLIDE_CHECK(std::adjacent_find(cutoffs_.begin(), cutoffs_.end(), std::greater_equal<>()) ==
               cutoffs_.end());
}

uint32_t* LabelTallies::RowOf(uint32_t label) {
  const auto [entry, is_new] = index_of_.try_emplace(label, labels_.size());
  if (is_new) {
    labels_.push_back(label);
    rows_.resize(rows_.size() + stride());
  }
  return rows_.data() + entry->second * stride();
}

void LabelTallies::Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels) {
  ++samples_;
  for (const uint32_t label : labels) {
    uint32_t& occurrences = RowOf(label)[0];
    if (occurrences++ == 0) ++labels_in_data_;
  }
  size_t rank = 0;
  for (size_t c = 0; c < cutoffs_.size(); ++c) {
    for (; rank < cutoffs_[c] && rank < ranked.size(); ++rank) {
      uint32_t* row = RowOf(ranked[rank]);
      row[1 + 2 * c]++;
      if (Contains(labels, ranked[rank])) row[2 + 2 * c]++;
    }
  }
}

std::vector<LabelMeasures> LabelTallies::Measures() const {
  struct Sums {
    double hits = 0, predicted = 0, f1 = 0, covered = 0;
  };
  std::vector<Sums> sums(cutoffs_.size());
  double occurrences = 0;
  for (size_t i = 0; i < labels_.size(); ++i) {
    const uint32_t* row = rows_.data() + i * stride();
    const double is_true = row[0];
    double predicted = 0, hits = 0;
    occurrences += is_true;
    for (size_t c = 0; c < cutoffs_.size(); ++c) {
      predicted += row[1 + 2 * c];
      hits += row[2 + 2 * c];
      sums[c].predicted += predicted;
      sums[c].hits += hits;
      sums[c].f1 += Ratio(2 * hits, predicted + is_true);
      sums[c].covered += hits > 0 ? 1 : 0;
    }
  }
  const auto in_data = static_cast<double>(labels_in_data_);
  std::vector<LabelMeasures> measures;
  for (const Sums& s : sums) {
    measures.push_back({Ratio(2 * s.hits, s.predicted + occurrences), Ratio(s.f1, in_data),
                        Ratio(s.covered, in_data)});
  }
  return measures;
}

std::array<BandMeasures, kBands> LabelTallies::ForBands(const FrequencyBands& bands) const {
  std::array<BandMeasures, kBands> result;
  std::array<std::vector<double>, kBands> hits_in;  // [band][cutoff]
  for (auto& hits : hits_in) hits.resize(cutoffs_.size());
  for (size_t i = 0; i < labels_.size(); ++i) {
    const uint32_t* row = rows_.data() + i * stride();
    const auto band = static_cast<size_t>(bands.Of(labels_[i]));
    result[band].occurrences += row[0];
    double hits = 0;
    for (size_t c = 0; c < cutoffs_.size(); ++c) {
      hits += row[2 + 2 * c];
      hits_in[band][c] += hits;
    }
  }
  for (size_t b = 0; b < kBands; ++b) {
    const auto occurrences = static_cast<double>(result[b].occurrences);
    for (size_t c = 0; c < cutoffs_.size(); ++c) {
      const double places = static_cast<double>(cutoffs_[c]) * static_cast<double>(samples_);
      result[b].precision.push_back(Ratio(hits_in[b][c], places));
      result[b].recall.push_back(Ratio(hits_in[b][c], occurrences));
    }
  }
  return result;
}

}  // namespace dslide
