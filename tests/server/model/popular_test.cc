#include "server/model/sampling/popular.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"

namespace dslide::popular_test {
namespace {

constexpr uint32_t kDim = 12, kSlots = 8, kIds = 101;  // 8 regions of 13 rows, 3 rows are padding

Layer EmptyLayer(const std::vector<SlotId>& owned) {
  Config config;
  config.model.precision = Precision::kFp32;
  config.model.hidden = kDim;
  return Layer(LayerKind::kOutput, config, SlotMap(kIds, kSlots, owned), Purpose::kTraining,
               BestKernels());
}

Layer RandomLayer(const std::vector<SlotId>& owned) {
  Layer layer = EmptyLayer(owned);
  layer.Initialise(1, 1.0f, kIds);
  Random random(2);
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    layer.row(row).scalars->bias = static_cast<float>(random.Normal());
  }
  return layer;
}

std::vector<SlotId> Slots(uint32_t count) {
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < count; ++s) slots.push_back({s});
  return slots;
}

Matrix Activations(uint32_t rows, uint64_t seed) {
  Random random(seed);
  Matrix hidden(rows, kDim);
  for (float& value : hidden.data) value = static_cast<float>(random.Uniform());
  return hidden;
}

// The best `count` rows for the mean of `hidden`, by a full sort.
std::vector<uint32_t> BestForMean(const Layer& layer, const Matrix& hidden, size_t count) {
  std::vector<std::pair<double, uint32_t>> scored;
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    if (layer.map().Global(row) == SlotMap::kNone) continue;
    double score = layer.bias(row);
    for (uint32_t i = 0; i < hidden.rows; ++i) {
      for (uint32_t d = 0; d < kDim; ++d) {
        score += double{hidden.row(i)[d]} * layer.weights(row)[d] / hidden.rows;
      }
    }
    scored.emplace_back(-score, row);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < std::min(count, scored.size()); ++i) rows.push_back(scored[i].second);
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<uint32_t> RowsOf(const PopularNeurons& popular) {
  return {popular.rows().begin(), popular.rows().end()};
}

TEST_CASE("popular neurons: the first batch chooses the best for its mean activation") {
  for (const uint32_t owned : {1u, 3u, kSlots}) {
    const Layer layer = RandomLayer(Slots(owned));
    const Matrix hidden = Activations(5, 3);
    for (const uint32_t count : {0u, 1u, 7u, 1000u}) {
      CAPTURE(count);
      PopularNeurons popular(count, layer, BestKernels());
      CHECK(popular.rows().empty());
      popular.Follow(ColumnMeans(hidden, BestKernels()));
      CHECK(RowsOf(popular) == BestForMean(layer, hidden, count));
    }
  }
}

TEST_CASE("popular neurons: changed weights count after two rounds of slices at the latest") {
  Layer layer = RandomLayer(Slots(kSlots));
  const Matrix hidden = Activations(4, 5);
  PopularNeurons popular(9, layer, BestKernels());
  popular.Follow(ColumnMeans(hidden, BestKernels()));
  const std::vector<uint32_t> before = RowsOf(popular);
  popular.Follow(ColumnMeans(hidden, BestKernels()));
  for (const uint32_t row : before) layer.row(row).scalars->bias = -100.0f;
  for (uint32_t i = 0; i < 2 * PopularNeurons::kMinSlices; ++i)
    popular.Follow(ColumnMeans(hidden, BestKernels()));
  CHECK(RowsOf(popular) != before);
  CHECK(RowsOf(popular) == BestForMean(layer, hidden, 9));
}

TEST_CASE("popular neurons: the mean moves with the activations") {
  const Layer layer = RandomLayer(Slots(kSlots));
  PopularNeurons popular(9, layer, BestKernels());
  popular.Follow(ColumnMeans(Activations(4, 6), BestKernels()));
  const Matrix later = Activations(4, 7);
  CHECK(RowsOf(popular) != BestForMean(layer, later, 9));
  for (uint32_t i = 0; i < 30 * PopularNeurons::kMinSlices; ++i)
    popular.Follow(ColumnMeans(later, BestKernels()));
  CHECK(RowsOf(popular) == BestForMean(layer, later, 9));
}

// The weights of the whole model for a slot.
void FillSlot(Layer* layer, SlotId slot) {
  Layer whole = RandomLayer(Slots(kSlots));
  std::vector<uint8_t> bytes(layer->RowBytes());
  for (uint32_t row = 0; row < layer->map().SlotSize(slot); ++row) {
    whole.StoreRow(whole.map().LocalRow(slot, row), bytes.data());
    layer->LoadRow(layer->map().LocalRow(slot, row), bytes.data());
  }
}

TEST_CASE("popular neurons: rows that left are dropped at once, those that came are among them") {
  Layer layer = RandomLayer(Slots(3));
  const Matrix hidden = Activations(4, 5);
  const std::vector<float> mean = ColumnMeans(hidden, BestKernels());
  PopularNeurons popular(9, layer, BestKernels());
  popular.Follow(mean);
  for (int batch = 0; batch < 7; ++batch) popular.Follow(mean);
  layer.Detach({1});
  popular.FollowMap(6);
  CHECK(RowsOf(popular) == BestForMean(layer, hidden, 6));
  for (const SlotId slot : {SlotId{6}, SlotId{4}}) {
    layer.Reserve(slot);
    popular.FollowMap(6);
    CHECK(RowsOf(popular) == BestForMean(layer, hidden, 6));
    FillSlot(&layer, slot);
    layer.Attach(slot);
    popular.FollowMap(12);
    CHECK(RowsOf(popular) == BestForMean(layer, hidden, 12));
  }
  layer.Release({1});
  popular.FollowMap(12);
  for (uint32_t i = 0; i < 2 * PopularNeurons::kMinSlices; ++i) popular.Follow(mean);
  CHECK(RowsOf(popular) == BestForMean(layer, hidden, 12));
}

TEST_CASE("popular neurons: what is saved after slots moved is restored") {
  Layer layer = RandomLayer(Slots(3));
  const std::vector<float> mean = ColumnMeans(Activations(4, 5), BestKernels());
  PopularNeurons popular(9, layer, BestKernels());
  for (int batch = 0; batch < 8; ++batch) popular.Follow(mean);
  layer.Detach({1});
  layer.Reserve({6});
  FillSlot(&layer, {6});
  layer.Attach({6});
  popular.FollowMap(7);
  PopularNeurons restored(7, layer, BestKernels());
  REQUIRE(restored.Restore(popular.Save()));
  for (uint32_t i = 0; i < 2 * PopularNeurons::kMinSlices; ++i) {
    CHECK(RowsOf(restored) == RowsOf(popular));
    popular.Follow(mean);
    restored.Follow(mean);
  }
}

TEST_CASE("popular neurons: a state of another number of them is begun anew") {
  Layer layer = RandomLayer(Slots(3));
  const std::vector<float> mean = ColumnMeans(Activations(4, 5), BestKernels());
  PopularNeurons nine(9, layer, BestKernels());
  nine.Follow(mean);
  PopularNeurons seven(7, layer, BestKernels()), none(0, layer, BestKernels());
  REQUIRE(seven.Restore(nine.Save()));
  CHECK(RowsOf(seven).empty());
  seven.Follow(mean);
  CHECK(RowsOf(seven).size() == 7);
  CHECK(none.Restore(nine.Save()));
}

TEST_CASE("popular neurons: all slots may leave, and others come") {
  Layer layer = RandomLayer(Slots(1));
  const Matrix hidden = Activations(4, 5);
  const std::vector<float> mean = ColumnMeans(hidden, BestKernels());
  PopularNeurons popular(5, layer, BestKernels());
  popular.Follow(mean);
  layer.Detach({0});
  popular.FollowMap(0);
  CHECK(popular.rows().empty());
  CHECK(PopularNeurons(0, layer, BestKernels()).Restore(popular.Save()));
  popular.Follow(mean);
  CHECK(popular.rows().empty());
  layer.Reserve({3});
  FillSlot(&layer, {3});
  layer.Attach({3});
  popular.FollowMap(5);
  popular.Follow(mean);
  CHECK(RowsOf(popular) == BestForMean(layer, hidden, 5));
}

TEST_CASE("popular neurons: a slot that is only copied changes nothing") {
  Layer layer = RandomLayer(Slots(3));
  PopularNeurons popular(9, layer, BestKernels());
  popular.Follow(ColumnMeans(Activations(4, 5), BestKernels()));
  // Some scores are newer than the choice.
  for (int batch = 0; batch < 7; ++batch) {
    popular.Follow(ColumnMeans(Activations(4, 6), BestKernels()));
  }
  const std::vector<uint32_t> before(popular.rows().begin(), popular.rows().end());
  layer.Reserve({6});
  popular.FollowMap(9);
  CHECK(std::ranges::equal(popular.rows(), before));
  layer.Release({6});
  popular.FollowMap(9);
  CHECK(std::ranges::equal(popular.rows(), before));
}

}  // namespace
}  // namespace dslide::popular_test
