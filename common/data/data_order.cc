#include "common/data/data_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"

namespace dslide {
namespace {

constexpr uint64_t kEpochStream = 0xe90c;
constexpr uint64_t kEvaluationStream = 0xe7a1;

// The first `count` places of a random permutation of [0, n) (Fisher, Yates).
std::vector<uint32_t> Shuffled(uint64_t n, uint64_t count, uint64_t seed) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  Random random(seed);
  for (uint64_t i = 0; i < count; ++i) std::swap(order[i], order[i + random.Below(n - i)]);
  order.resize(count);
  return order;
}

}  // namespace

DataOrder DataOrder::Epoch(const Dataset& data, uint64_t seed, uint32_t epoch, uint32_t batch) {
  DataOrder order(data, batch);
  if (const TokenSamples* drawn = data.drawn()) {
    order.weighted_ = !drawn->rules().sessions;
    order.draws_ = TokenSamples::Draws(seed, epoch);
    order.order_ = drawn->Order(order.draws_);
    return order;
  }
  order.weighted_ = data.has_weights();
  order.order_ = Shuffled(data.size(), data.size(), SubSeed(SubSeed(seed, kEpochStream), epoch));
  return order;
}

DataOrder DataOrder::Evaluation(const Dataset& data, uint64_t seed, uint64_t samples,
                                uint32_t batch) {
  DSLIDE_CHECK(data.drawn() == nullptr);
  DataOrder order(data, batch);
  const uint64_t count = samples == 0 ? data.size() : std::min<uint64_t>(samples, data.size());
  if (count < data.size()) {
    order.order_ = Shuffled(data.size(), count, SubSeed(seed, kEvaluationStream));
  } else {
    order.order_.resize(count);
    std::iota(order.order_.begin(), order.order_.end(), 0u);
  }
  return order;
}

BatchRange DataOrder::Batch(uint64_t number) const {
  DSLIDE_CHECK(number < batches());
  const uint64_t first = number * batch_;
  return {first, static_cast<uint32_t>(std::min<uint64_t>(batch_, order_.size() - first))};
}

}  // namespace dslide
