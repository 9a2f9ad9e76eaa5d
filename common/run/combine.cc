#include "common/run/combine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/overloaded.h"

namespace dslide {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <typename T>
void AddTo(const std::vector<T>& part, std::vector<T>* sum) {
  DSLIDE_CHECK(part.size() == sum->size());
  for (size_t i = 0; i < part.size(); ++i) (*sum)[i] += part[i];
}

void AddMatrix(const Matrix& part, Matrix* sum) {
  DSLIDE_CHECK(part.rows == sum->rows && part.cols == sum->cols);
  AddTo(part.data, &sum->data);
}

// Better neurons first; a total order, so that the result does not depend on the parts' order.
bool Better(float score_a, uint32_t id_a, float score_b, uint32_t id_b) {
  return score_a != score_b ? score_a > score_b : id_a < id_b;
}

// log(sum_j exp(z_j)) over parts from each part's max and sum_exp (shifted by its own max): with
// M the largest max, the sum over parts of sum_exp * exp(max - M). No exponent is above 0.
void MergeNormalisers(const std::vector<ActiveReply>& parts, ActiveReply* merged) {
  for (size_t i = 0; i < merged->max.size(); ++i) {
    float max = kMinusInfinity;
    for (const ActiveReply& part : parts) max = std::max(max, part.max[i]);
    double sum = 0;
    for (const ActiveReply& part : parts) {
      if (part.max[i] == kMinusInfinity) continue;  // scored nothing; -inf minus -inf is NaN
      sum += part.sum_exp[i] * std::exp(double{part.max[i]} - max);
    }
    merged->max[i] = max;
    merged->sum_exp[i] = static_cast<float>(sum);
  }
}

// Adds all parts' sums of exponentials up; none if some part has none.
void MergeExpSums(const std::vector<ActiveReply>& parts, ActiveReply* merged) {
  for (size_t p = 1; p < parts.size(); ++p) {
    if (parts[p].exp_sums.size() != merged->exp_sums.size()) {
      merged->exp_sums.clear();
      return;
    }
    for (size_t i = 0; i < merged->exp_sums.size(); ++i) {
      merged->exp_sums[i].Add(parts[p].exp_sums[i]);
    }
  }
}

// The best kProbeNeurons of sample i's probes.
Probe MergeProbes(const std::vector<ActiveReply>& parts, size_t i) {
  std::vector<std::pair<const Probe*, size_t>> neurons;
  for (const ActiveReply& part : parts) {
    if (i >= part.probes.size()) continue;
    const Probe& probe = part.probes[i];
    for (size_t e = 0; e < probe.ids.size(); ++e) neurons.emplace_back(&probe, e);
  }
  const size_t kept = std::min<size_t>(neurons.size(), kProbeNeurons);
  std::partial_sort(neurons.begin(), neurons.begin() + static_cast<ptrdiff_t>(kept), neurons.end(),
                    [](const auto& a, const auto& b) {
                      return Better(a.first->logits[a.second], a.first->ids[a.second],
                                    b.first->logits[b.second], b.first->ids[b.second]);
                    });
  Probe merged;
  for (const auto& [probe, e] : std::span(neurons).first(kept)) {
    merged.ids.push_back(probe->ids[e]);
    merged.logits.push_back(probe->logits[e]);
    merged.in_set.push_back(probe->in_set[e]);
    merged.in_hash.push_back(probe->in_hash[e]);
  }
  return merged;
}

// The parts' errors are independent, so their variances add up. REQUIRES merged normalisers.
void MergeTailVariance(const std::vector<ActiveReply>& parts, ActiveReply* merged) {
  merged->tail_variance.assign(merged->tail_variance.size(), 0.0f);
  for (const ActiveReply& part : parts) {
    if (part.tail_variance.size() != merged->tail_variance.size()) {
      merged->tail_variance.clear();
      return;
    }
    for (size_t i = 0; i < part.tail_variance.size(); ++i) {
      const float share =
          part.sum_exp[i] / merged->sum_exp[i] * std::exp(part.max[i] - merged->max[i]);
      if (share > 0) merged->tail_variance[i] += share * share * part.tail_variance[i];
    }
  }
}

// No early exit, so that it vectorises.
bool InRange(const std::vector<float>& numbers) {
  bool in_range = true;
  for (const float x : numbers) in_range &= std::abs(x) <= kMostReplied;
  return in_range;
}
bool InRange(const Matrix& sum) { return InRange(sum.data); }
bool InRange(const FixedMatrix& sum) { return sum.in_range; }
bool InRange(const PartialSum& sum) {
  return std::visit([](const auto& of_type) { return InRange(of_type); }, sum);
}
bool InRange(const ActiveReply& active) {
  return InRange(active.sum_exp) && InRange(active.target_logit) && InRange(active.loss) &&
         std::ranges::all_of(active.max, [](float x) { return x <= kMostReplied; });
}

}  // namespace

void AddPartial(PartialSum part, PartialSum* sum) {
  auto* const fixed_sum = std::get_if<FixedMatrix>(sum);
  const auto* const fixed_part = std::get_if<FixedMatrix>(&part);
  if (fixed_sum == nullptr || fixed_part == nullptr) {
    Matrix floats = InFloats(std::move(*sum));
    AddMatrix(InFloats(std::move(part)), &floats);
    *sum = std::move(floats);
    return;
  }
  DSLIDE_CHECK(fixed_part->rows == fixed_sum->rows && fixed_part->cols == fixed_sum->cols);
  const bool added =
      AddFixed(fixed_part->data.size(), fixed_part->data.data(), fixed_sum->data.data());
  fixed_sum->in_range = fixed_sum->in_range && fixed_part->in_range && added;
}

PartialSum SumPartials(std::vector<PartialSum> parts) {
  DSLIDE_CHECK(!parts.empty());
  PartialSum sum = std::move(parts.front());
  for (size_t p = 1; p < parts.size(); ++p) AddPartial(std::move(parts[p]), &sum);
  return sum;
}

LayerRows MergeRows(std::vector<LayerRows> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  std::vector<std::pair<uint32_t, const float*>> rows;
  uint32_t cols = 0;
  for (const LayerRows& part : parts) {
    if (!part.ids.empty()) cols = part.values.cols;
    for (uint32_t i = 0; i < part.ids.size(); ++i) {
      rows.emplace_back(part.ids[i], part.values.row(i));
    }
  }
  std::ranges::sort(rows);
  LayerRows merged;
  merged.values = Matrix(static_cast<uint32_t>(rows.size()), cols);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    merged.ids.push_back(rows[i].first);
    std::copy_n(rows[i].second, cols, merged.values.row(i));
  }
  return merged;
}

EmbedReply MergeEmbedded(std::vector<EmbedReply> parts) {
  std::vector<PartialSum> partials;
  std::vector<LayerRows> rows;
  for (EmbedReply& part : parts) {
    partials.push_back(std::move(part.partial));
    if (part.dense) rows.push_back(*std::move(part.dense));
  }
  EmbedReply merged{SumPartials(std::move(partials))};
  if (!rows.empty()) merged.dense = MergeRows(std::move(rows));
  return merged;
}

Matrix InFloats(PartialSum sum) {
  if (auto* floats = std::get_if<Matrix>(&sum)) return std::move(*floats);
  const auto& fixed = std::get<FixedMatrix>(sum);
  Matrix result(fixed.rows, fixed.cols);
  std::ranges::transform(fixed.data, result.data.begin(), FromFixed);
  if (!fixed.in_range) std::ranges::fill(result.data, std::numeric_limits<float>::quiet_NaN());
  return result;
}

ActiveReply MergeActive(std::vector<ActiveReply> parts) {
  DSLIDE_CHECK(!parts.empty());
  if (parts.size() == 1) return std::move(parts.front());
  ActiveReply merged = parts.front();
  size_t probes = merged.probes.size();
  for (size_t p = 1; p < parts.size(); ++p) {
    const ActiveReply& part = parts[p];
    DSLIDE_CHECK(part.max.size() == merged.max.size());
    DSLIDE_CHECK(part.sum_exp.size() == merged.sum_exp.size());
    AddTo(part.target_logit, &merged.target_logit);
    AddTo(part.active, &merged.active);
    AddTo(part.loss, &merged.loss);
    merged.active_rows += part.active_rows;
    probes = std::max(probes, part.probes.size());
  }
  MergeExpSums(parts, &merged);
  if (merged.exp_sums.empty()) {
    MergeNormalisers(parts, &merged);
  } else {
    UseExpSums(&merged);
  }
  merged.probes.clear();
  for (size_t i = 0; i < probes; ++i) merged.probes.push_back(MergeProbes(parts, i));
  MergeTailVariance(parts, &merged);
  return merged;
}

TopKReply MergeTopK(std::span<const TopKReply> parts, uint32_t k) {
  DSLIDE_CHECK(!parts.empty());
  for (const TopKReply& part : parts) {
    DSLIDE_CHECK(part.offsets.size() == parts.front().offsets.size());
  }
  TopKReply merged;
  std::vector<std::pair<float, uint32_t>> row;  // (score, id)
  for (size_t i = 0; i + 1 < parts.front().offsets.size(); ++i) {
    row.clear();
    for (const TopKReply& part : parts) {
      for (size_t e = part.offsets[i]; e < part.offsets[i + 1]; ++e) {
        row.emplace_back(part.scores[e], part.ids[e]);
      }
    }
    const size_t kept = std::min<size_t>(row.size(), k);
    std::partial_sort(
        row.begin(), row.begin() + static_cast<ptrdiff_t>(kept), row.end(),
        [](const auto& a, const auto& b) { return Better(a.first, a.second, b.first, b.second); });
    for (const auto& [score, id] : std::span(row).first(kept)) {
      merged.ids.push_back(id);
      merged.scores.push_back(score);
    }
    merged.offsets.push_back(static_cast<uint32_t>(merged.ids.size()));
  }
  return merged;
}

void UseExpSums(ActiveReply* reply) {
  std::ranges::transform(reply->exp_sums, reply->max.begin(),
                         [](const ExpSum& sum) { return sum.Log(); });
  reply->sum_exp.assign(reply->max.size(), 1.0f);
}

size_t CountCommon(std::span<const uint32_t> ids, std::span<const uint32_t> others) {
  return static_cast<size_t>(std::ranges::count_if(
      ids, [&](uint32_t id) { return std::ranges::find(others, id) != others.end(); }));
}

void Condense(ActiveReply* reply) {
  reply->max = LogNormaliser(*reply);
  reply->sum_exp.assign(reply->max.size(), 1.0f);
}

std::vector<float> LogNormaliser(const ActiveReply& merged) {
  std::vector<float> result(merged.max.size(), kMinusInfinity);
  for (size_t i = 0; i < result.size(); ++i) {
    if (merged.max[i] == kMinusInfinity) continue;
    result[i] = static_cast<float>(merged.max[i] + std::log(double{merged.sum_exp[i]}));
  }
  return result;
}

GradientPush PushAfter(const BatchId& batch, const ActiveReply& merged) {
  GradientPush push{batch, LogNormaliser(merged)};
  for (float& log_normaliser : push.log_normaliser) {
    if (log_normaliser == kMinusInfinity) log_normaliser = 0.0f;  // no score, no gradient
  }
  return push;
}

bool IsInRange(const Body& reply) {
  return std::visit(
      Overloaded{
          [](const EmbedReply& embed) {
            return InRange(embed.partial) && (!embed.dense || InRange(embed.dense->values));
          },
          [](const GradientReply& gradient) {
            return InRange(gradient.partial) && (!gradient.active || InRange(*gradient.active));
          },
          [](const ActiveReply& active) { return InRange(active); },
          [](const TopKReply& top) { return InRange(top.scores); },
          [](const auto&) { return true; },
      },
      reply);
}

}  // namespace dslide
