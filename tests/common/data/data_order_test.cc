#include "common/data/data_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/numbered_samples.h"

namespace dslide::data_order_test {
namespace {

std::vector<uint32_t> Order(const DataOrder& order) {
  std::vector<uint32_t> samples;
  for (uint64_t at = 0; at < order.samples(); ++at) {
    samples.push_back(order.Sample(at).features[0]);
  }
  return samples;
}

bool IsPermutation(std::vector<uint32_t> samples) {
  std::sort(samples.begin(), samples.end());
  for (uint32_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != i) return false;
  }
  return true;
}

TEST_CASE("every epoch is another permutation, the same for whoever asks") {
  const Dataset data = NumberedSamples(1000, 7);
  const auto first = Order(DataOrder::Epoch(data, 1, 0, 16));
  const auto second = Order(DataOrder::Epoch(data, 1, 1, 16));
  CHECK(first.size() == 1000);
  CHECK(IsPermutation(first));
  CHECK(IsPermutation(second));
  CHECK(first != second);
  CHECK(first != Order(DataOrder::Epoch(data, 2, 0, 16)));
  CHECK(first == Order(DataOrder::Epoch(data, 1, 0, 16)));
  CHECK(first == Order(DataOrder::Epoch(data, 1, 0, 32)));
}

TEST_CASE("held-out samples are in no order of an epoch") {
  const Dataset data = NumberedSamples(12, 7);
  const std::vector<uint32_t> held_out = {0, 3, 11};
  for (uint32_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<uint32_t> order = Order(DataOrder::Epoch(data, 1, epoch, 4, held_out));
    std::ranges::sort(order);
    CHECK(order == std::vector<uint32_t>{1, 2, 4, 5, 6, 7, 8, 9, 10});
  }
  // The i-th place is that of the i-th sample which is trained.
  std::vector<uint32_t> nine = Order(DataOrder::Epoch(NumberedSamples(9, 7), 1, 3, 4));
  constexpr uint32_t kTrained[] = {1, 2, 4, 5, 6, 7, 8, 9, 10};
  for (uint32_t& place : nine) place = kTrained[place];
  CHECK(Order(DataOrder::Epoch(data, 1, 3, 4, held_out)) == nine);
  CHECK(Order(DataOrder::OfSamples(data, held_out, 4)) == held_out);
}

TEST_CASE("batches cut the order without gaps, the last may be short") {
  const Dataset data = NumberedSamples(50, 7);
  const DataOrder order = DataOrder::Epoch(data, 1, 0, 16);
  REQUIRE(order.batches() == 4);
  for (uint64_t n = 0; n < 4; ++n) {
    CHECK(order.Batch(n).first == 16 * n);
    CHECK(order.Batch(n).samples == (n < 3 ? 16 : 2));
  }
}

// Workers that have the file and the scheduler must draw the same order, whatever their versions.
TEST_CASE("the order of an epoch is part of the protocol") {
  const Dataset data = NumberedSamples(12, 7);
  CHECK(Order(DataOrder::Epoch(data, 1, 3, 4)) ==
        std::vector<uint32_t>{11, 5, 6, 3, 0, 7, 4, 2, 10, 9, 1, 8});
}

TEST_CASE("an evaluation takes a random subset, not a prefix") {
  const Dataset data = NumberedSamples(1000, 7);
  auto subset = Order(DataOrder::Evaluation(data, 1, 200, 16));
  CHECK(subset == Order(DataOrder::Evaluation(data, 1, 200, 16)));
  std::sort(subset.begin(), subset.end());
  CHECK(std::adjacent_find(subset.begin(), subset.end()) == subset.end());
  CHECK(subset.size() == 200);
  // Half of it should come from the first half of the file; hypergeometric, deviation 6.3.
  const auto low = std::count_if(subset.begin(), subset.end(), [](uint32_t s) { return s < 500; });
  CHECK(std::abs(static_cast<double>(low) - 100) < 32);
}

TEST_CASE("an evaluation on all samples goes in the file's order") {
  const Dataset data = NumberedSamples(30, 7);
  for (const uint64_t samples : {0, 30, 31}) {
    const auto order = Order(DataOrder::Evaluation(data, 1, samples, 16));
    CHECK(order.size() == 30);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

}  // namespace
}  // namespace dslide::data_order_test
