#include "tools/bench/cells/exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/math/kernels.h"

namespace dslide::cells {
namespace {

// Takes apart what a row has: out[dim + 1].
void CopyRow(const RowView& row, size_t dim, float* out) {
  std::copy_n(row.weights, dim, out);
  out[dim] = row.scalars->bias;
}

}  // namespace

Result<SumsRule> ParseSumsRule(std::string_view name) {
  if (name == "all") return SumsRule::kAll;
  if (name == "mean") return SumsRule::kMean;
  if (name == "follow") return SumsRule::kFollow;
  return BadInput(fmt::format("--sums: {} is none of all, mean, follow", name));
}

Traffic& Traffic::operator+=(const Traffic& more) {
  exchanges += more.exchanges;
  touched += more.touched;
  sent += more.sent;
  merged += more.merged;
  direct_bytes += more.direct_bytes;
  owner_bytes += more.owner_bytes;
  return *this;
}

double RowBytes(const Layer& layer) {
  constexpr double kHead = 4 + 4 + 4 + 2;
  return kHead + (layer.kind() == LayerKind::kOutput ? 4 : 0) + layer.dim();
}

LayerExchange::LayerExchange(std::vector<Layer*> layers, const ExchangeRules& rules)
    : layers_(std::move(layers)),
      rules_(rules),
      dim_(layers_.at(0)->dim()),
      width_(dim_ + 1),
      norms_(layers_.size()),
      changes_(layers_.size()) {
  const uint32_t rows = layers_[0]->map().rows();
  base_.resize(size_t{rows} * width_);
  if (rules_.round) cut_off_.resize(base_.size());
  if (rules_.momentum > 0) velocity_.resize(base_.size());
  base_sum_.resize(rows);
  told_.assign(layers_.size(), std::vector<uint32_t>(rows));
  for (uint32_t row = 0; row < rows; ++row) CopyRow(layers_[0]->row(row), dim_, BaseOf(row));
}

Traffic LayerExchange::Exchange(bool all) {
  traffic_ = {};
  traffic_.exchanges = 1;
  for (uint32_t row = 0; row < base_sum_.size(); ++row) {
    if (!Collect(row, all)) continue;
    Merge(row);
    Spread(row);
  }
  EndNorms();
  const auto groups = static_cast<double>(layers_.size());
  const double bytes = RowBytes(*layers_[0]);
  traffic_.direct_bytes = (groups - 1) * bytes * static_cast<double>(traffic_.sent);
  // An owner has its own share of the rows already.
  traffic_.owner_bytes = (groups - 1) / groups * bytes * static_cast<double>(traffic_.sent) +
                         (groups - 1) * bytes * static_cast<double>(traffic_.merged);
  return traffic_;
}

// Fills changes_. False: no group sends anything.
bool LayerExchange::Collect(uint32_t row, bool all) {
  bool any = false;
  for (size_t group = 0; group < layers_.size(); ++group) {
    Change& change = changes_[group];
    change.sent.clear();
    const RowView view = layers_[group]->row(row);
    if (view.scalars->steps == told_[group][row]) continue;
    CollectOf(group, row, all);
    any = any || !change.sent.empty();
  }
  return any;
}

void LayerExchange::CollectOf(size_t group, uint32_t row, bool all) {
  Change& change = changes_[group];
  const RowView view = layers_[group]->row(row);
  const float* base = BaseOf(row);
  std::vector<float>& sent = change.sent;
  sent.resize(width_);
  CopyRow(view, dim_, sent.data());
  for (size_t i = 0; i < width_; ++i) sent[i] -= base[i];
  const double squares = BestKernels().dot(width_, sent.data(), sent.data());
  traffic_.touched++;
  norms_[group].squares += squares;
  norms_[group].rows++;
  const uint32_t touches = view.scalars->steps - told_[group][row];
  const bool waits = touches < rules_.least_touches || std::sqrt(squares) < norms_[group].threshold;
  if (waits && !all) return sent.clear();
  if (rules_.round) RoundToInt8(dim_, sent.data());
  change.touches = static_cast<float>(touches);
  change.sum = view.scalars->moment2 - base_sum_[row];
  told_[group][row] = view.scalars->steps;
  traffic_.sent++;
}

// merged_ = what the base moves by.
void LayerExchange::Merge(uint32_t row) {
  parts_.clear();
  for (const Change& change : changes_) {
    if (!change.sent.empty()) parts_.push_back({change.sent.data(), change.touches});
  }
  MergeParts(rules_.rule, rules_.few, width_, parts_, &merged_);
  traffic_.merged++;
  growth_ = 0;
  for (const Change& change : changes_) growth_ += change.sent.empty() ? 0 : change.sum;
  growth_ *= SumsFactor();
  const size_t at = size_t{row} * width_;
  for (float& x : merged_) x *= rules_.outer;
  if (rules_.momentum > 0) {
    for (size_t i = 0; i < width_; ++i) {
      float& velocity = velocity_[at + i];
      velocity = rules_.momentum * velocity + merged_[i];
      merged_[i] += rules_.momentum * velocity;
    }
  }
  if (!rules_.round) return;
  for (size_t i = 0; i < dim_; ++i) cut_off_[at + i] = merged_[i] += cut_off_[at + i];
  RoundToInt8(dim_, merged_.data());
  for (size_t i = 0; i < dim_; ++i) cut_off_[at + i] -= merged_[i];
}

float LayerExchange::SumsFactor() const {
  const float least = 1 / static_cast<float>(parts_.size());
  if (rules_.sums == SumsRule::kAll || parts_.size() == 1) return 1;
  if (rules_.sums == SumsRule::kMean) return least;
  const Kernels& kernels = BestKernels();
  float squares = 0;
  for (const RowPart& part : parts_) squares += kernels.dot(width_, part.change, part.change);
  if (squares == 0) return 1;
  return std::clamp(kernels.dot(width_, merged_.data(), merged_.data()) / squares, least, 1.0f);
}

// Moves the base, and in each group what is not its own unsent change.
void LayerExchange::Spread(uint32_t row) {
  float* base = BaseOf(row);
  for (size_t i = 0; i < width_; ++i) base[i] += merged_[i];
  base_sum_[row] += growth_;
  for (size_t group = 0; group < layers_.size(); ++group) {
    const Change& change = changes_[group];
    layers_[group]->changed().BeforeChange(row);
    const RowView view = layers_[group]->row(row);
    BestKernels().axpy(dim_, 1, merged_.data(), view.weights);
    view.scalars->bias += merged_[dim_];
    view.scalars->moment2 += growth_;
    if (change.sent.empty()) continue;
    BestKernels().axpy(dim_, -1, change.sent.data(), view.weights);
    // Equal in all groups to the bit, and never below 0.
    view.scalars->bias = base[dim_];
    view.scalars->moment2 = base_sum_[row];
  }
}

void LayerExchange::EndNorms() {
  for (Norms& norms : norms_) {
    const double mean = norms.rows == 0 ? 0 : norms.squares / static_cast<double>(norms.rows);
    norms = {0, 0, rules_.hold_back * std::sqrt(mean)};
  }
}

void LayerExchange::TakeBase(size_t group) {
  for (uint32_t row = 0; row < base_sum_.size(); ++row) {
    layers_[group]->changed().BeforeChange(row);
    const RowView view = layers_[group]->row(row);
    std::copy_n(BaseOf(row), dim_, view.weights);
    view.scalars->bias = BaseOf(row)[dim_];
    view.scalars->moment2 = base_sum_[row];
  }
}

}  // namespace dslide::cells
