#include "common/run/lease_batch.h"

#include <algorithm>

namespace dslide {

LeaseBatch BatchWithSamples(const DataOrder& order, uint64_t number, uint32_t index) {
  const BatchRange range = order.Batch(number);
  LeaseBatch batch;
  batch.index = index;
  batch.first_sample = range.first;
  for (uint64_t at = range.first; at < range.first + range.samples; ++at) {
    const SampleView sample = order.Sample(at);
    auto& f = batch.features;
    f.ids.insert(f.ids.end(), sample.features.begin(), sample.features.end());
    f.values.insert(f.values.end(), sample.values.begin(), sample.values.end());
    f.EndRow();
    batch.labels.ids.insert(batch.labels.ids.end(), sample.labels.begin(), sample.labels.end());
    batch.labels.EndRow();
    if (order.weighted()) batch.weights.push_back(sample.weight);
  }
  if (std::ranges::count(batch.weights, 1.0f) == range.samples) batch.weights.clear();
  return batch;
}

LeaseBatch BatchByNumbers(const DataOrder& order, uint64_t number, uint32_t index) {
  const BatchRange range = order.Batch(number);
  LeaseBatch batch;
  batch.index = index;
  batch.first_sample = range.first;
  batch.samples = range.samples;
  return batch;
}

}  // namespace dslide
