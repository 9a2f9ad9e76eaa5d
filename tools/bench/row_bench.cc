// Random rows of a layer: gathered, multiplied, updated. The weights of 41,218 rows in fp32 are
// 21 MB, which a large third-level cache holds; those of 670,091 are 343 MB.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>

#include "common/base/random.h"
#include "server/rows/layer.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

constexpr uint32_t kRowDim = 128;
constexpr size_t kActive = 7000;  // rows of a batch

struct LayerSpec {
  uint32_t rows;
  Precision precision;  // of the weights, and of Adam's moments
  OptimizerKind optimizer;
  bool operator==(const LayerSpec&) const = default;
};

Layer MakeLayer(const LayerSpec& spec) {
  Config config;
  config.model.hidden = kRowDim;
  config.model.precision = spec.precision;
  config.train.optimizer = spec.optimizer;
  ResolveConfig(spec.rows, spec.rows, &config);
  const SlotId all = {0};
  return Layer(LayerKind::kOutput, config, SlotMap(spec.rows, 1, {&all, 1}), Purpose::kTraining,
               BestKernels());
}

// Builds the layer unless it is the last one built: one layer at a time is in memory, at most 1 GB.
Layer& LayerOf(const LayerSpec& spec) {
  static LayerSpec built;
  static std::optional<Layer> layer;
  if (layer && built == spec) return *layer;
  layer.reset();
  layer.emplace(MakeLayer(spec));
  layer->Initialise(1, 0.1f, spec.rows);
  // Moments get their memory on first touch.
  const std::vector<float> gradient = RandomFloats(kRowDim, 2);
  for (uint32_t row = 0; row < spec.rows; ++row) {
    layer->Update(row, 1e-3f, gradient.data(), 0.1f, true);
  }
  built = spec;
  return *layer;
}

// The active rows of batch after batch.
class Batches {
 public:
  explicit Batches(uint32_t rows) : drawn_(kBatches * kActive) {
    Random random(3);
    for (uint32_t& row : drawn_) row = static_cast<uint32_t>(random.Below(rows));
  }
  std::span<const uint32_t> Next() {
    return {drawn_.data() + next_++ % kBatches * kActive, kActive};
  }

 private:
  static constexpr size_t kBatches = 64;
  std::vector<uint32_t> drawn_;
  size_t next_ = 0;
};

// Calls visit(row) on a batch's rows, prefetch(row) a few rows ahead.
template <typename Prefetch, typename Visit>
void ForEach(std::span<const uint32_t> rows, const Prefetch& prefetch, const Visit& visit) {
  constexpr size_t kAhead = 4;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) prefetch(rows[i + kAhead]);
    visit(rows[i]);
  }
}

void SetRates(benchmark::State& state, size_t bytes_a_row) {
  const int64_t rows = state.iterations() * int64_t{kActive};
  state.SetItemsProcessed(rows);
  state.SetBytesProcessed(rows * static_cast<int64_t>(bytes_a_row));
}

// Bytes are those read from the layer.
template <typename To>
void Gather(benchmark::State& state, const LayerSpec& spec) {
  const Layer& layer = LayerOf(spec);
  Batches batches(spec.rows);
  std::vector<To> out(kActive * kRowDim);
  for (auto _ : state) {
    layer.Gather(batches.Next(), out.data());
    benchmark::ClobberMemory();
  }
  SetRates(state, layer.WeightBytes());
}

void Dot(benchmark::State& state, const LayerSpec& spec) {
  const Layer& layer = LayerOf(spec);
  Batches batches(spec.rows);
  const std::vector<float> x = RandomFloats(kRowDim, 4);
  for (auto _ : state) {
    ForEach(
        batches.Next(), [&](uint32_t row) { layer.PrefetchWeights(row); },
        [&](uint32_t row) { benchmark::DoNotOptimize(layer.Dot(row, x.data())); });
  }
  SetRates(state, layer.WeightBytes());
}

// Bytes are those read and those written.
void Update(benchmark::State& state, const LayerSpec& spec) {
  Layer& layer = LayerOf(spec);
  Batches batches(spec.rows);
  const std::vector<float> gradient = RandomFloats(kRowDim, 4);
  for (auto _ : state) {
    ForEach(
        batches.Next(), [&](uint32_t row) { layer.PrefetchAll(row); },
        [&](uint32_t row) { layer.Update(row, 1e-3f, gradient.data(), 0.1f, true); });
  }
  SetRates(state, 2 * (layer.WeightBytes() + layer.StateBytes() + sizeof(RowScalars)));
}

}  // namespace

void RegisterRowBenches() {
  for (const uint32_t rows : {41'218u, 670'091u}) {
    for (const bool bf16 : {false, true}) {
      const auto add = [&](const std::string& name, auto* function, OptimizerKind optimizer) {
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/rows:{}", name, bf16 ? "bf16" : "fp32", rows).c_str(), function,
            LayerSpec{rows, bf16 ? Precision::kBf16 : Precision::kFp32, optimizer});
      };
      // Benchmarks of the same layer follow each other.
      add("Gather/to_fp32", Gather<float>, OptimizerKind::kAdaGrad);
      add("Gather/to_bf16", Gather<uint16_t>, OptimizerKind::kAdaGrad);
      add("Dot", Dot, OptimizerKind::kAdaGrad);
      add("Update/adagrad", Update, OptimizerKind::kAdaGrad);
      add("Update/adam", Update, OptimizerKind::kAdam);
      add("Update/sgd", Update, OptimizerKind::kSgd);
    }
  }
}

}  // namespace dslide
