// A layer whose weights, and perhaps moments, are bf16: storage, reading, and updates that follow
// those of an fp32 layer.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "server/rows/layer.h"

namespace dslide::layer_bf16_test {
namespace {

constexpr uint32_t kTotal = 103, kSlots = 10, kDim = 37;
constexpr double kUlp = 0x1p-7;  // the spacing of bf16 between 1 and 2

Config ConfigOf(Precision precision, MomentPrecision moments, OptimizerKind optimizer) {
  Config config;
  config.model.hidden = kDim;
  config.model.precision = precision;
  config.train.moments = moments;
  config.train.optimizer = optimizer;
  return config;
}

Layer LayerOf(const Config& config, const std::vector<uint32_t>& owned,
              Purpose purpose = Purpose::kTraining, LayerKind kind = LayerKind::kOutput) {
  std::vector<SlotId> slots;
  for (const uint32_t s : owned) slots.push_back({s});
  return Layer(kind, config, SlotMap(kTotal, kSlots, slots), purpose, BestKernels());
}

const std::vector<uint32_t> kAll = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

std::vector<float> Weights(const Layer& layer, uint32_t row) {
  std::vector<float> w(kDim);
  layer.Gather({&row, 1}, w.data());
  return w;
}

std::vector<uint8_t> Stored(Layer* layer, uint32_t row) {
  std::vector<uint8_t> bytes(layer->RowBytes());
  layer->StoreRow(row, bytes.data());
  return bytes;
}

RowScalars ScalarsOf(const std::vector<uint8_t>& stored) {
  RowScalars scalars;
  std::memcpy(&scalars, stored.data(), sizeof(scalars));
  return scalars;
}

std::vector<float> Normal(size_t n, Random* random) {
  std::vector<float> x(n);
  for (float& value : x) value = static_cast<float>(random->Normal());
  return x;
}

// Calls f(config) for both precisions of the moments and every optimiser.
void ForEachStorage(const std::function<void(const Config&)>& f) {
  for (const MomentPrecision moments : {MomentPrecision::kFp32, MomentPrecision::kBf16}) {
    for (const OptimizerKind optimizer :
         {OptimizerKind::kAdam, OptimizerKind::kAdaGrad, OptimizerKind::kSgd}) {
      CAPTURE(static_cast<int>(moments));
      CAPTURE(static_cast<int>(optimizer));
      f(ConfigOf(Precision::kBf16, moments, optimizer));
    }
  }
}

size_t MomentBytes(const Config& config) {
  if (config.train.optimizer != OptimizerKind::kAdam) return 0;
  return 2 * kDim * (config.train.moments == MomentPrecision::kBf16 ? 2 : 4);
}

TEST_CASE("bf16 rows take two bytes a weight, in memory and stored") {
  ForEachStorage([](const Config& config) {
    const Layer layer = LayerOf(config, {2, 5});
    CHECK(layer.bf16());
    CHECK(layer.WeightBytes() == 2 * kDim);
    CHECK(layer.StateBytes() == MomentBytes(config));
    CHECK(layer.RowBytes() == sizeof(RowScalars) + 2 * kDim + MomentBytes(config));
    CHECK(layer.MemoryBytes() == layer.RowBytes() * layer.map().rows());
    // For inference the moments are not in memory; stored rows have them all the same.
    const Layer reader = LayerOf(config, {2, 5}, Purpose::kInference);
    CHECK(reader.StateBytes() == 0);
    CHECK(reader.RowBytes() == layer.RowBytes());
    CHECK(reader.MemoryBytes() == (sizeof(RowScalars) + 2 * kDim) * reader.map().rows());
  });
}

TEST_CASE("a stored bf16 row comes back bit by bit, and updates go on as if it had stayed") {
  ForEachStorage([](Config config) {
    config.train.weight_decay = 0.1f;
    Random random(1);
    Layer layer = LayerOf(config, kAll);
    layer.Initialise(5, 0.3f, kTotal);
    const uint32_t id = 42;
    const uint32_t row = layer.map().Local(id);
    for (int step = 0; step < 5; ++step) {
      layer.Update(row, 0.05f, Normal(kDim, &random).data(), 0.5f, true);
    }
    const std::vector<uint8_t> bytes = Stored(&layer, row);
    CHECK(ScalarsOf(bytes).steps == 5);
    Layer other = LayerOf(config, {1, 2});
    const uint32_t elsewhere = other.map().Local(id);
    REQUIRE(elsewhere != row);
    other.LoadRow(elsewhere, bytes.data());
    CHECK(Stored(&other, elsewhere) == bytes);
    CHECK(other.bias(elsewhere) == layer.bias(row));
    for (const uint32_t neighbour : {elsewhere - 1, elsewhere + 1}) {
      CHECK(Stored(&other, neighbour) == std::vector<uint8_t>(other.RowBytes()));
    }
    Layer reader = LayerOf(config, {2}, Purpose::kInference);
    reader.LoadRow(reader.map().Local(id), bytes.data());
    CHECK(Weights(reader, reader.map().Local(id)) == Weights(layer, row));
    CHECK(reader.bias(reader.map().Local(id)) == layer.bias(row));

    const std::vector<float> g = Normal(kDim, &random);
    layer.Update(row, 0.05f, g.data(), 0.5f, true);
    other.Update(elsewhere, 0.05f, g.data(), 0.5f, true);
    CHECK(Stored(&other, elsewhere) == Stored(&layer, row));
    CHECK(Stored(&layer, row) != bytes);
  });
}

TEST_CASE("initial bf16 weights are the fp32 ones rounded to nearest, ids not drawn stay zero") {
  const OptimizerKind sgd = OptimizerKind::kSgd;
  Layer wide = LayerOf(ConfigOf(Precision::kFp32, MomentPrecision::kFp32, sgd), kAll);
  Layer narrow = LayerOf(ConfigOf(Precision::kBf16, MomentPrecision::kBf16, sgd), {3, 4, 8});
  wide.Initialise(5, 0.3f, 60);
  narrow.Initialise(5, 0.3f, 60);
  for (uint32_t row = 0; row < narrow.map().rows(); ++row) {
    const uint32_t id = narrow.map().Global(row);
    if (id == SlotMap::kNone) continue;
    std::vector<uint16_t> expected(kDim), bits(kDim);
    BestKernels().to_bf16(kDim, wide.weights(wide.map().Local(id)), expected.data());
    narrow.Gather({&row, 1}, bits.data());
    CHECK(bits == expected);
    CHECK(std::any_of(bits.begin(), bits.end(), [](uint16_t b) { return b != 0; }) == (id < 60));
  }
}

TEST_CASE("Gather, Range, Dot and WeightedSum read the same bf16 weights") {
  Layer layer =
      LayerOf(ConfigOf(Precision::kBf16, MomentPrecision::kBf16, OptimizerKind::kAdam), {0, 4, 7});
  layer.Initialise(3, 0.5f, kTotal);
  Random random(2);
  // Longer than what is prefetched ahead, with repetitions.
  const std::vector<uint32_t> rows = {5, 0, 29, 5, 12, 13, 1, 20};
  std::vector<float> wide(rows.size() * kDim);
  std::vector<uint16_t> narrow(rows.size() * kDim);
  layer.Gather(rows, wide.data());
  layer.Gather(rows, narrow.data());
  for (size_t i = 0; i < wide.size(); ++i) {
    REQUIRE(std::bit_cast<uint32_t>(wide[i]) == uint32_t{narrow[i]} << 16);
  }
  std::vector<float> scratch;
  const float* range = layer.Range(3, 30, &scratch);
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(Weights(layer, rows[i]) ==
          std::vector<float>(wide.begin() + static_cast<ptrdiff_t>(i * kDim),
                             wide.begin() + static_cast<ptrdiff_t>((i + 1) * kDim)));
    if (rows[i] < 3) continue;
    CHECK(std::memcmp(range + (rows[i] - 3) * kDim, wide.data() + i * kDim, kDim * 4) == 0);
  }
  // A scratch that is larger than needed is no obstacle.
  CHECK(std::memcmp(layer.Range(5, 6, &scratch), wide.data(), kDim * 4) == 0);

  const std::vector<float> x = Normal(kDim, &random), factors = Normal(rows.size(), &random);
  std::vector<float> sum(kDim);
  layer.WeightedSum(rows, factors.data(), sum.data());
  std::vector<double> expected(kDim);
  for (size_t e = 0; e < rows.size(); ++e) {
    double dot = 0;
    for (size_t j = 0; j < kDim; ++j) {
      dot += double{x[j]} * double{wide[e * kDim + j]};
      expected[j] += double{factors[e]} * double{wide[e * kDim + j]};
    }
    CHECK(std::abs(layer.Dot(rows[e], x.data()) - dot) < 1e-5);
  }
  for (size_t j = 0; j < kDim; ++j) CHECK(std::abs(sum[j] - expected[j]) < 1e-5);
}

TEST_CASE("an fp32 layer gathers bf16 rounded to nearest") {
  Layer layer =
      LayerOf(ConfigOf(Precision::kFp32, MomentPrecision::kFp32, OptimizerKind::kSgd), {0, 4});
  layer.Initialise(3, 0.5f, kTotal);
  const std::vector<uint32_t> rows = {7, 3, 3, 0, 11, 9};
  std::vector<uint16_t> narrow(rows.size() * kDim), expected(kDim);
  layer.Gather(rows, narrow.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    BestKernels().to_bf16(kDim, layer.weights(rows[i]), expected.data());
    CHECK(std::equal(expected.begin(), expected.end(),
                     narrow.begin() + static_cast<ptrdiff_t>(i * kDim)));
  }
}

TEST_CASE("rounding belongs to the id and its step, not to the slots that a layer owns") {
  ForEachStorage([](Config config) {
    config.train.weight_decay = 0.05f;
    Layer whole = LayerOf(config, kAll), part = LayerOf(config, {2, 7});
    whole.Initialise(5, 0.3f, kTotal);
    part.Initialise(5, 0.3f, kTotal);
    // One in the order of ids, the other backwards.
    for (int step = 0; step < 7; ++step) {
      for (uint32_t n = 0; n < kTotal; ++n) {
        for (Layer* layer : {&whole, &part}) {
          const uint32_t id = layer == &whole ? n : kTotal - 1 - n;
          const uint32_t row = layer->map().Local(id);
          if (row == SlotMap::kNone) continue;
          Random random(SubSeed(id, static_cast<uint64_t>(step)));
          layer->Update(row, 0.01f, Normal(kDim, &random).data(), 0.1f, true);
        }
      }
    }
    bool same = true;
    for (uint32_t row = 0; row < part.map().rows(); ++row) {
      const uint32_t id = part.map().Global(row);
      if (id == SlotMap::kNone) continue;
      same = same && Stored(&part, row) == Stored(&whole, whole.map().Local(id));
    }
    CHECK(same);
  });
}

TEST_CASE("rounding differs by id, by step and by layer") {
  const Config config = ConfigOf(Precision::kBf16, MomentPrecision::kBf16, OptimizerKind::kSgd);
  // Half an ulp, from equal weights: each element goes up or stays, by the noise alone.
  const std::vector<float> g(kDim, static_cast<float>(-kUlp / 2));
  Layer layer = LayerOf(config, kAll);
  Layer input = LayerOf(config, kAll, Purpose::kTraining, LayerKind::kInput);
  const auto rounded = [&](Layer* where, uint32_t id, uint32_t steps) {
    std::vector<uint8_t> bytes(where->RowBytes());
    const RowScalars scalars = {0, 0, 0, steps};
    std::memcpy(bytes.data(), &scalars, sizeof(scalars));
    const std::vector<uint16_t> ones(kDim, 0x3f80);
    std::memcpy(bytes.data() + sizeof(scalars), ones.data(), 2 * kDim);
    const uint32_t row = where->map().Local(id);
    where->LoadRow(row, bytes.data());
    where->Update(row, 1.0f, g.data(), 0, false);
    return Weights(*where, row);
  };
  const std::vector<float> first = rounded(&layer, 3, 0);
  CHECK(std::all_of(first.begin(), first.end(),
                    [](float w) { return w == 1.0f || w == 1.0f + static_cast<float>(kUlp); }));
  CHECK(rounded(&layer, 3, 0) == first);
  CHECK(rounded(&layer, 4, 0) != first);
  CHECK(rounded(&layer, 13, 0) != first);  // the same slot
  CHECK(rounded(&layer, 3, 1) != first);
  CHECK(rounded(&input, 3, 0) != first);
}

TEST_CASE("weight decay and gradient are rounded independently of each other") {
  // From 1.25 the decay goes half an ulp down and the gradient half an ulp up, a coin each: in half
  // of the cases they cancel out.
  Config config = ConfigOf(Precision::kBf16, MomentPrecision::kBf16, OptimizerKind::kSgd);
  config.train.weight_decay = static_cast<float>(kUlp / 2 / 1.25);
  const std::vector<float> g(kDim, static_cast<float>(-kUlp / 2));
  const std::vector<uint16_t> start(kDim, 0x3fa0);
  Layer layer = LayerOf(config, kAll);
  std::vector<uint8_t> bytes(layer.RowBytes());
  std::memcpy(bytes.data() + sizeof(RowScalars), start.data(), 2 * kDim);
  double unmoved = 0, sum = 0;
  for (uint32_t id = 0; id < kTotal; ++id) {
    const uint32_t row = layer.map().Local(id);
    layer.LoadRow(row, bytes.data());
    layer.Update(row, 1.0f, g.data(), 0, true);
    for (const float w : Weights(layer, row)) {
      unmoved += w == 1.25f;
      sum += (double{w} - 1.25) / kUlp;
    }
  }
  constexpr double kElements = double{kTotal} * kDim;
  CHECK(std::abs(unmoved - kElements / 2) < 4 * std::sqrt(kElements / 4));
  CHECK(std::abs(sum) < 4 * std::sqrt(kElements / 2));
}

struct Drift {
  double movement = 0;  // mean |change| of an fp32 weight
  double mean = 0;      // of bf16 weight - fp32 weight, over all weights
  double error = 0;     // standard error of `mean`
  double spread = 0;    // standard deviation of a weight's difference
};

// The same steps on an fp32 and a bf16 layer that start from equal weights between 1 and 2. Every
// element's gradient has its own sign and size and some noise, so that it moves far, by steps of a
// fraction of an ulp.
Drift DriftOf(Config config, float rate, int steps) {
  Layer narrow = LayerOf(config, kAll);
  config.model.precision = Precision::kFp32;
  config.train.moments = MomentPrecision::kFp32;
  Layer wide = LayerOf(config, kAll);
  Random random(4);
  std::vector<std::vector<float>> start(kTotal), direction(kTotal);
  for (uint32_t id = 0; id < kTotal; ++id) {
    std::vector<uint16_t> bits(kDim);
    for (uint16_t& b : bits) b = static_cast<uint16_t>(0x3fa0 + random.Below(64));
    std::vector<uint8_t> bytes(narrow.RowBytes());
    std::memcpy(bytes.data() + sizeof(RowScalars), bits.data(), 2 * kDim);
    narrow.LoadRow(narrow.map().Local(id), bytes.data());
    start[id] = Weights(narrow, narrow.map().Local(id));
    std::copy(start[id].begin(), start[id].end(), wide.row(wide.map().Local(id)).weights);
    direction[id] = Normal(kDim, &random);
  }
  for (int step = 0; step < steps; ++step) {
    for (uint32_t id = 0; id < kTotal; ++id) {
      std::vector<float> g = Normal(kDim, &random);
      for (uint32_t j = 0; j < kDim; ++j) g[j] = direction[id][j] + 0.5f * g[j];
      narrow.Update(narrow.map().Local(id), rate, g.data(), 0.25f, true);
      wide.Update(wide.map().Local(id), rate, g.data(), 0.25f, true);
    }
  }
  constexpr double kElements = double{kTotal} * kDim;
  Drift drift;
  double squares = 0;
  for (uint32_t id = 0; id < kTotal; ++id) {
    const std::vector<float> a = Weights(narrow, narrow.map().Local(id));
    const std::vector<float> b = Weights(wide, wide.map().Local(id));
    CHECK(narrow.bias(narrow.map().Local(id)) == wide.bias(wide.map().Local(id)));
    for (uint32_t j = 0; j < kDim; ++j) {
      // Along its direction, so that what falls short of it does not cancel out.
      const double sign = direction[id][j] > 0 ? -1 : 1;
      const double difference = sign * (double{a[j]} - double{b[j]});
      drift.mean += difference / kElements;
      squares += difference * difference / kElements;
      drift.movement += std::abs(double{b[j]} - double{start[id][j]}) / kElements;
    }
  }
  drift.spread = std::sqrt(squares - drift.mean * drift.mean);
  drift.error = drift.spread / std::sqrt(kElements);
  return drift;
}

// Rates by which a weight moves some hundredths of an ulp a step, all of which rounding to nearest
// would lose.
float SmallRate(OptimizerKind optimizer) {
  if (optimizer == OptimizerKind::kAdam) return 3e-4f;
  return optimizer == OptimizerKind::kAdaGrad ? 6e-3f : 3e-4f;
}

TEST_CASE("many small bf16 updates move a weight as far as fp32 ones") {
  ForEachStorage([](Config config) {
    for (const float decay : {0.0f, 0.5f}) {
      CAPTURE(decay);
      config.train.weight_decay = decay;
      constexpr int kSteps = 500;
      const Drift drift = DriftOf(config, SmallRate(config.train.optimizer), kSteps);
      CAPTURE(drift.movement);
      CAPTURE(drift.mean);
      CAPTURE(drift.error);
      CHECK(drift.movement > 5 * kUlp);
      CHECK(drift.error < 0.01 * drift.movement);
      // A step is rounded by at most one ulp (two roundings with decay), independently.
      CHECK(drift.spread < 2 * kUlp * std::sqrt(kSteps));
      CHECK(drift.spread > 0);
      // Adam is not linear in moments of bf16: their noise has a bias of a share of the movement.
      const bool rounded_moments = config.train.optimizer == OptimizerKind::kAdam &&
                                   config.train.moments == MomentPrecision::kBf16;
      const double bias = rounded_moments ? 0.01 * drift.movement : 0.0;
      CHECK(std::abs(drift.mean) < 4 * drift.error + bias);
    }
  });
}

}  // namespace
}  // namespace dslide::layer_bf16_test
