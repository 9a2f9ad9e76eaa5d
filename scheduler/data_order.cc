#include "scheduler/data_order.h"

#include <algorithm>
#include <numeric>

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
  order.order_ = Shuffled(data.size(), data.size(), SubSeed(SubSeed(seed, kEpochStream), epoch));
  return order;
}

DataOrder DataOrder::Evaluation(const Dataset& data, uint64_t seed, uint64_t samples,
                                uint32_t batch) {
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

LeaseBatch DataOrder::Batch(uint64_t number, uint32_t index) const {
  LeaseBatch batch;
  batch.index = index;
  batch.first_sample = number * batch_;
  const uint64_t end = std::min<uint64_t>(order_.size(), batch.first_sample + batch_);
  for (uint64_t at = batch.first_sample; at < end; ++at) {
    const SampleView sample = Sample(at);
    auto& f = batch.features;
    f.ids.insert(f.ids.end(), sample.features.begin(), sample.features.end());
    f.values.insert(f.values.end(), sample.values.begin(), sample.values.end());
    f.EndRow();
    batch.labels.ids.insert(batch.labels.ids.end(), sample.labels.begin(), sample.labels.end());
    batch.labels.EndRow();
  }
  return batch;
}

}  // namespace dslide
