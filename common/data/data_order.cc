#include "common/data/data_order.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <ranges>
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

// The numbers below `n` that are not among `left_out`, which ascend.
std::vector<uint32_t> AllBut(std::span<const uint32_t> left_out, uint64_t n) {
  std::vector<uint32_t> numbers;
  numbers.reserve(n - left_out.size());
  std::ranges::set_difference(std::views::iota(uint32_t{0}, static_cast<uint32_t>(n)), left_out,
                              std::back_inserter(numbers));
  return numbers;
}

}  // namespace

DataOrder DataOrder::Epoch(const Dataset& data, uint64_t seed, uint32_t epoch, uint32_t batch,
                           std::span<const uint32_t> held_out) {
  DataOrder order(data, batch);
  if (const TokenSamples* drawn = data.drawn()) {
    order.weighted_ = !drawn->rules().sessions;
    order.draws_ = TokenSamples::Draws(seed, epoch);
    order.order_ = drawn->Order(order.draws_);
    return order;
  }
  order.weighted_ = data.has_weights();
  const uint64_t trained = data.size() - held_out.size();
  order.order_ = Shuffled(trained, trained, SubSeed(SubSeed(seed, kEpochStream), epoch));
  if (held_out.empty()) return order;
  const std::vector<uint32_t> numbers = AllBut(held_out, data.size());
  for (uint32_t& place : order.order_) place = numbers[place];
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

DataOrder DataOrder::OfSamples(const Dataset& data, std::vector<uint32_t> numbers, uint32_t batch) {
  DSLIDE_CHECK(data.drawn() == nullptr);
  DataOrder order(data, batch);
  order.order_ = std::move(numbers);
  return order;
}

BatchRange DataOrder::Batch(uint64_t number) const {
  DSLIDE_CHECK(number < batches());
  const uint64_t first = number * batch_;
  return {first, static_cast<uint32_t>(std::min<uint64_t>(batch_, order_.size() - first))};
}

}  // namespace dslide
