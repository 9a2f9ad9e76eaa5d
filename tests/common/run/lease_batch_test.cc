#include "common/run/lease_batch.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/numbered_samples.h"

namespace dslide::lease_batch_test {
namespace {

TEST_CASE("a batch with samples holds those of its place in the order") {
  const Dataset data = NumberedSamples(50, 7);
  const DataOrder order = DataOrder::Epoch(data, 1, 0, 16);
  std::vector<uint32_t> samples, expected;
  for (uint64_t n = 0; n < order.batches(); ++n) {
    const LeaseBatch batch = BatchWithSamples(order, n, 3);
    CHECK(batch.index == 3);
    CHECK(batch.first_sample == 16 * n);
    CHECK(batch.samples == 0);
    CHECK(batch.features.rows() == (n < 3 ? 16 : 2));
    CHECK(batch.labels.rows() == batch.features.rows());
    for (uint32_t i = 0; i < batch.features.rows(); ++i) {
      samples.push_back(batch.features.Ids(i)[0]);
      CHECK(batch.features.Values(i)[0] == 1.0f);
      CHECK(batch.labels.Ids(i)[0] == batch.features.Ids(i)[0] % 7);
    }
  }
  for (uint64_t at = 0; at < 50; ++at) expected.push_back(order.Sample(at).features[0]);
  CHECK(samples == expected);
}

TEST_CASE("a batch has the weights of its samples if one of them is not 1, in training") {
  const Dataset plain = NumberedSamples(50, 7);
  Dataset data(plain.num_features(), plain.num_labels());
  for (uint32_t i = 0; i < 50; ++i) {
    SampleView sample = plain[i];
    if (i == 0) sample.weight = 0.0f;
    if (i == 30) sample.weight = 2.5f;
    data.Add(sample);
  }
  CHECK(data.has_weights());
  CHECK(data[29].weight == 1.0f);
  CHECK(data[30].weight == 2.5f);
  const DataOrder order = DataOrder::Epoch(data, 1, 0, 16);
  size_t with = 0;
  for (uint64_t n = 0; n < order.batches(); ++n) {
    const LeaseBatch batch = BatchWithSamples(order, n, 3);
    const bool plain_samples =
        std::ranges::none_of(batch.features.ids, [](uint32_t id) { return id == 0 || id == 30; });
    CHECK(batch.weights.empty() == plain_samples);
    for (uint32_t i = 0; i < batch.weights.size(); ++i) {
      CHECK(batch.weights[i] == data[batch.features.Ids(i)[0]].weight);
    }
    with += !batch.weights.empty();
    CHECK(BatchByNumbers(order, n, 3).weights.empty());
  }
  CHECK(with > 0);
  CHECK(with < order.batches());
  const DataOrder evaluation = DataOrder::Evaluation(data, 1, 0, 50);
  CHECK(BatchWithSamples(evaluation, 0, 0).weights.empty());
}

TEST_CASE("a batch by numbers says where and how many") {
  const Dataset data = NumberedSamples(50, 7);
  const DataOrder order = DataOrder::Epoch(data, 1, 0, 16);
  for (uint64_t n = 0; n < order.batches(); ++n) {
    const LeaseBatch batch = BatchByNumbers(order, n, 5);
    CHECK(batch.index == 5);
    CHECK(batch.first_sample == 16 * n);
    CHECK(batch.samples == (n < 3 ? 16 : 2));
    CHECK(batch.features.rows() == 0);
    CHECK(batch.labels.rows() == 0);
  }
}

}  // namespace
}  // namespace dslide::lease_batch_test
