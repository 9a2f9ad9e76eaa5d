#include "server/rows/layer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

namespace dslide::layer_test {
namespace {

constexpr uint32_t kTotal = 103, kSlots = 10, kDim = 7;

SlotMap Map(std::initializer_list<uint32_t> owned) {
  std::vector<SlotId> slots;
  for (const uint32_t s : owned) slots.push_back({s});
  return SlotMap(kTotal, kSlots, slots);
}

Config ConfigOf(OptimizerKind optimizer) {
  Config config;
  config.model.precision = Precision::kFp32;
  config.model.hidden = kDim;
  config.train.optimizer = optimizer;
  return config;
}

Layer MakeLayer(SlotMap map, Purpose purpose = Purpose::kTraining,
                OptimizerKind optimizer = OptimizerKind::kAdam) {
  return Layer(LayerKind::kOutput, ConfigOf(optimizer), std::move(map), purpose, BestKernels());
}

TEST_CASE("a slot that there is no memory for leaves no rows behind") {
  Config config;
  config.model.hidden = 65536;
  const uint64_t total = 4'000'000'000;  // of 250 TB: more than addresses
  Layer layer(LayerKind::kOutput, config, SlotMap(total, 2, std::vector<SlotId>()),
              Purpose::kTraining, BestKernels());
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_AS(layer.Reserve({1}), std::bad_alloc);
    CHECK_FALSE(layer.map().HasRegion({1}));
    CHECK(layer.map().rows() == 0);
  }
}

TEST_CASE("initial weights belong to the id, however the slots are split") {
  Layer whole = MakeLayer(Map({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  Layer part = MakeLayer(Map({4, 7}));
  whole.Initialise(5, 0.3f, kTotal);
  part.Initialise(5, 0.3f, kTotal);
  double sum = 0, squares = 0;
  std::set<float> values;
  for (uint32_t id = 0; id < kTotal; ++id) {
    const float* w = whole.weights(whole.map().Local(id));
    for (uint32_t j = 0; j < kDim; ++j) {
      sum += w[j];
      squares += double{w[j]} * w[j];
      values.insert(w[j]);
      CHECK(std::abs(w[j]) <= 3.47f * 0.3f);
    }
    const uint32_t local = part.map().Local(id);
    if (local == SlotMap::kNone) continue;
    CHECK(std::memcmp(w, part.weights(local), kDim * sizeof(float)) == 0);
  }
  const double n = kTotal * kDim;
  CHECK(values.size() > 0.99 * n);
  CHECK(std::abs(sum / n) < 4 * 0.3 / std::sqrt(n));
  CHECK(std::sqrt(squares / n) == doctest::Approx(0.3).epsilon(0.1));
}

TEST_CASE("the seed and the layer change the initial weights, ids not drawn stay zero") {
  Layer a = MakeLayer(Map({0})), b = MakeLayer(Map({0}));
  Layer input(LayerKind::kInput, ConfigOf(OptimizerKind::kSgd), Map({0}), Purpose::kTraining,
              BestKernels());
  a.Initialise(5, 0.3f, kTotal);
  b.Initialise(6, 0.3f, 50);
  input.Initialise(5, 0.3f, kTotal);
  CHECK(a.weights(0)[0] != b.weights(0)[0]);
  CHECK(a.weights(0)[0] != input.weights(0)[0]);
  CHECK(b.weights(b.map().Local(40))[0] != 0.0f);
  CHECK(b.weights(b.map().Local(50))[0] == 0.0f);
}

TEST_CASE("a row becomes the mean direction of its samples, anew in each pass") {
  Layer layer = MakeLayer(Map({0}));
  layer.Initialise(5, 0.3f, kTotal);
  std::vector<float> x(kDim, 0.0f), both(kDim, 0.0f);
  x[0] = 1.0f;
  both[0] = both[1] = 1.0f;                      // two unit vectors
  layer.AddToCentroid(2, x.data(), 1, 1, 3.0f);  // the initial weights are gone
  CHECK(layer.weights(2)[0] == doctest::Approx(3.0));
  CHECK(layer.weights(2)[1] == doctest::Approx(0.0));
  layer.AddToCentroid(2, both.data(), 2, 1, 3.0f);
  const auto is_sum = [&](double first, double second, uint32_t samples) {
    const double length = std::hypot(first, second);
    CHECK(layer.weights(2)[0] == doctest::Approx(3.0 * first / length));
    CHECK(layer.weights(2)[1] == doctest::Approx(3.0 * second / length));
    CHECK(layer.samples(2) == samples);
    CHECK(layer.sum_length(2) == doctest::Approx(length));
    CHECK(layer.bias(2) == 0.0f);
  };
  is_sum(2, 1, 3);

  // In the midst of a pass, what is stored is all that counts.
  std::vector<uint8_t> stored(layer.RowBytes());
  layer.StoreRow(2, stored.data());
  layer.AddToCentroid(2, x.data(), 1, 1, 3.0f);
  is_sum(3, 1, 4);
  layer.LoadRow(2, stored.data());
  layer.AddToCentroid(2, both.data(), 2, 1, 3.0f);
  is_sum(3, 2, 5);

  layer.AddToCentroid(2, both.data(), 2, 2, 3.0f);
  is_sum(1, 1, 2);
}

TEST_CASE("a stored row comes back with its optimiser state") {
  for (const OptimizerKind optimizer : {OptimizerKind::kAdam, OptimizerKind::kAdaGrad}) {
    Layer layer = MakeLayer(Map({0, 1}), Purpose::kTraining, optimizer);
    const bool moments = optimizer == OptimizerKind::kAdam;
    CHECK(layer.RowBytes() == sizeof(RowScalars) + (moments ? 3 : 1) * kDim * sizeof(float));
    const RowView row = layer.row(3);
    CHECK((row.moment1 != nullptr) == moments);
    for (uint32_t j = 0; j < kDim; ++j) {
      row.weights[j] = 1.5f + static_cast<float>(j);
      if (moments) row.moment1[j] = -2.0f, row.moment2[j] = 3.0f + static_cast<float>(j);
    }
    *row.scalars = {0.5f, 0.25f, 0.125f, 42};
    std::vector<uint8_t> bytes(layer.RowBytes());
    layer.StoreRow(3, bytes.data());
    Layer other = MakeLayer(Map({0, 1}), Purpose::kTraining, optimizer);
    other.LoadRow(5, bytes.data());
    std::vector<uint8_t> again(other.RowBytes());
    other.StoreRow(5, again.data());
    CHECK(bytes == again);
    CHECK(other.bias(5) == 0.5f);
    CHECK(other.row(5).scalars->steps == 42);
    CHECK(other.weights(4)[0] == 0.0f);  // the neighbours are untouched
    CHECK(other.weights(6)[0] == 0.0f);
    Layer reader = MakeLayer(Map({0, 1}), Purpose::kInference, optimizer);
    reader.LoadRow(5, bytes.data());
    CHECK(reader.weights(5)[6] == 7.5f);
    CHECK(reader.MemoryBytes() <= layer.MemoryBytes());
  }
}

}  // namespace
}  // namespace dslide::layer_test
