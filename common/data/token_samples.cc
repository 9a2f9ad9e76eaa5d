#include "common/data/token_samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"

namespace dslide {
namespace {

constexpr uint64_t kKeepStream = 0x70ce;
constexpr uint64_t kWindowStream = 0x70cf;
constexpr uint64_t kOrderStream = 0x70d0;
constexpr uint64_t kCertain = uint64_t{1} << 32;

// The first `count` of a random permutation (Fisher, Yates).
void ShuffleFirst(uint64_t count, Random* random, std::vector<uint32_t>* positions) {
  const uint64_t n = positions->size();
  for (uint64_t i = 0; i < count; ++i) {
    std::swap((*positions)[i], (*positions)[i + random->Below(n - i)]);
  }
  positions->resize(count);
}

void SortOnce(std::vector<uint32_t>* ids) {
  std::ranges::sort(*ids);
  const auto rest = std::ranges::unique(*ids);
  ids->erase(rest.begin(), rest.end());
}

// Adds up the values of equal features. Few: they are sorted by insertion.
void AddFeature(uint32_t id, float value, TokenSamples::Scratch* scratch) {
  std::vector<uint32_t>& ids = scratch->features;
  const auto at = std::ranges::lower_bound(ids, id);
  const auto value_at = scratch->values.begin() + (at - ids.begin());
  if (at != ids.end() && *at == id) {
    *value_at += value;
    return;
  }
  scratch->values.insert(value_at, value);
  ids.insert(at, id);
}

// The tokens around `position` that keep() keeps, at most `window` on each side.
template <typename Keep>
void TakeContext(std::span<const uint32_t> tokens, uint32_t position, uint32_t window,
                 const Keep& keep, TokenSamples::Scratch* scratch) {
  constexpr uint32_t kLineEnd = TokenSamples::kLineEnd;
  std::vector<uint32_t>& labels = scratch->labels;
  labels.clear();
  for (uint32_t p = position, left = window; left > 0 && p > 0 && tokens[p - 1] != kLineEnd;) {
    if (!keep(--p)) continue;
    labels.push_back(tokens[p]);
    --left;
  }
  for (uint32_t p = position + 1, left = window; left > 0 && tokens[p] != kLineEnd; ++p) {
    if (!keep(p)) continue;
    labels.push_back(tokens[p]);
    --left;
  }
  SortOnce(&labels);
  scratch->features.assign(1, tokens[position]);
  scratch->values.assign(1, 1.0f);
}

// The items before `position`.
void TakeHistory(const TokenRules& rules, std::span<const uint32_t> tokens, uint32_t position,
                 TokenSamples::Scratch* scratch) {
  scratch->labels.assign(1, tokens[position]);
  scratch->features.clear();
  scratch->values.clear();
  float value = 1;
  for (uint32_t p = position, left = rules.window;
       left > 0 && p > 0 && tokens[p - 1] != TokenSamples::kLineEnd; --left) {
    AddFeature(tokens[--p], value, scratch);
    value *= rules.decay;
  }
}

}  // namespace

Dataset::Dataset(uint32_t num_features, uint32_t num_labels,
                 std::shared_ptr<const TokenSamples> drawn)
    : num_features_(num_features),
      num_labels_(num_labels),
      drawn_(std::move(drawn)),
      drawn_size_(drawn_->size()) {}

TokenSamples::Draws::Draws(uint64_t seed, uint32_t epoch)
    : keep_(SubSeed(SubSeed(seed, kKeepStream), epoch)),
      window_(SubSeed(SubSeed(seed, kWindowStream), epoch)),
      order_(SubSeed(SubSeed(seed, kOrderStream), epoch)) {}

TokenSamples::TokenSamples(const TokenRules& rules, uint32_t vocabulary,
                           std::vector<uint32_t> tokens)
    : rules_(rules), tokens_(std::move(tokens)), counts_(vocabulary) {
  DSLIDE_CHECK(rules.window > 0 && tokens_.size() < kLineEnd);
  DSLIDE_CHECK(tokens_.empty() || tokens_.back() == kLineEnd);
  uint64_t total = 0;
  for (uint32_t p = 0; p < tokens_.size(); ++p) {
    if (tokens_[p] == kLineEnd) continue;
    ++counts_.at(tokens_[p]);
    ++total;
    if (rules_.sessions) size_ += IsSample(rules_, tokens_, p);
  }
  if (rules_.sessions) return;
  double expected = 0;
  for (const uint64_t count : counts_) {
    double share = 1;
    if (rules_.subsample > 0 && count > 0) {
      const double ratio =
          rules_.subsample * static_cast<double>(total) / static_cast<double>(count);
      share = std::min(1.0, std::sqrt(ratio) + ratio);
    }
    stay_below_.push_back(static_cast<uint64_t>(share * static_cast<double>(kCertain)));
    expected += share * static_cast<double>(count);
  }
  size_ = std::min(total, static_cast<uint64_t>(std::ceil(expected)));
}

bool TokenSamples::Stays(uint32_t position, const Draws& draws) const {
  const uint64_t below = stay_below_[tokens_[position]];
  return below == kCertain || (SubSeed(draws.keep_, position) >> 32) < below;
}

bool TokenSamples::IsSample(const TokenRules& rules, std::span<const uint32_t> tokens,
                            uint32_t position) {
  if (tokens[position] == kLineEnd) return false;
  return !rules.sessions || (position > 0 && tokens[position - 1] != kLineEnd);
}

std::vector<uint32_t> TokenSamples::Order(const Draws& draws) const {
  Random random(draws.order_);
  std::vector<uint32_t> order;
  order.reserve(size_);
  for (uint32_t p = 0; p < tokens_.size(); ++p) {
    if (IsSample(rules_, tokens_, p) && (rules_.sessions || Stays(p, draws))) order.push_back(p);
  }
  // Fewer stay than on average: some of the others do too.
  if (order.size() < size_) {
    std::vector<uint32_t> others;
    for (uint32_t p = 0; p < tokens_.size(); ++p) {
      if (tokens_[p] != kLineEnd && !Stays(p, draws)) others.push_back(p);
    }
    ShuffleFirst(size_ - order.size(), &random, &others);
    order.insert(order.end(), others.begin(), others.end());
  }
  ShuffleFirst(size_, &random, &order);
  return order;
}

SampleView TokenSamples::Sample(uint32_t position, const Draws& draws, Scratch* scratch) const {
  float weight = 1;
  if (rules_.sessions) {
    TakeHistory(rules_, tokens_, position, scratch);
  } else {
    const auto drawn =
        static_cast<uint32_t>(Random(SubSeed(draws.window_, position)).Below(rules_.window));
    TakeContext(
        tokens_, position, drawn + 1, [&](uint32_t p) { return Stays(p, draws); }, scratch);
    weight = static_cast<float>(scratch->labels.size()) / static_cast<float>(rules_.window + 1);
  }
  return {scratch->labels, scratch->features, scratch->values, weight};
}

SampleView TokenSamples::WholeSample(const TokenRules& rules, std::span<const uint32_t> tokens,
                                     uint32_t position, Scratch* scratch) {
  if (rules.sessions) {
    TakeHistory(rules, tokens, position, scratch);
  } else {
    TakeContext(
        tokens, position, rules.window, [](uint32_t) { return true; }, scratch);
  }
  return {scratch->labels, scratch->features, scratch->values};
}

void TokenSamples::FeaturesOf(const TokenRules& rules, const std::vector<uint32_t>& items,
                              Scratch* scratch) {
  scratch->labels.clear();
  scratch->features.clear();
  scratch->values.clear();
  if (rules.sessions) {
    float value = 1.0f;
    for (size_t i = 0; i < std::min<size_t>(items.size(), rules.window); ++i) {
      AddFeature(items[items.size() - 1 - i], value, scratch);
      value *= rules.decay;
    }
    return;
  }
  // A whole text, which may be long: the mean of its words.
  scratch->features = items;
  SortOnce(&scratch->features);
  scratch->values.assign(scratch->features.size(), 0.0f);
  const float value = 1.0f / static_cast<float>(std::max<size_t>(1, items.size()));
  for (const uint32_t item : items) {
    const auto at = std::ranges::lower_bound(scratch->features, item) - scratch->features.begin();
    scratch->values[static_cast<size_t>(at)] += value;
  }
}

}  // namespace dslide
