// The products and exponentials of one chunk of the dense block (server/model/dense_scorer.h): B
// samples against kChunk gathered rows, in every variant that this CPU has.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/math/bf16_gemm.h"
#include "common/math/kernels.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

constexpr size_t kBatch = 256;
constexpr size_t kChunk = 256;
constexpr size_t kMaxDim = 512;
constexpr size_t kElements = std::max(kBatch, kChunk) * kMaxDim;  // of the largest operand

// T is float, or uint16_t for bf16.
template <typename T>
using Function = void (*)(size_t m, size_t n, size_t k, const T* a, size_t lda, const T* b,
                          size_t ldb, float* c, size_t ldc, bool accumulate);

template <typename T>
struct Product {
  Function<T> function;
  size_t m, n, k, lda, ldb;
  bool accumulate;
};

// Uniform in [-0.5, 0.5).
std::vector<float> RandomFloats(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random.Uniform() - 0.5);
  return x;
}

void FillRandom(uint64_t seed, std::vector<float>* out) { *out = RandomFloats(kElements, seed); }
void FillRandom(uint64_t seed, std::vector<uint16_t>* out) {
  out->resize(kElements);
  BestKernels().to_bf16(kElements, RandomFloats(kElements, seed).data(), out->data());
}

template <typename T>
void Multiply(benchmark::State& state, const Product<T>& p) {
  std::vector<T> a, b;
  FillRandom(1, &a);
  FillRandom(2, &b);
  std::vector<float> c(kElements);
  for (auto _ : state) {
    p.function(p.m, p.n, p.k, a.data(), p.lda, b.data(), p.ldb, c.data(), p.n, p.accumulate);
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(p.m * p.n * p.k),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void RegisterVariant(const std::string& variant, Function<T> nt, Function<T> nn, Function<T> tn) {
  for (const size_t dim : {size_t{128}, kMaxDim}) {
    const auto add = [&](const char* name, const Product<T>& product) {
      const std::string full = fmt::format("{}/{}/H:{}", name, variant, dim);
      benchmark::RegisterBenchmark(full.c_str(), Multiply<T>, product);
    };
    add("gemm_nt", {nt, kBatch, kChunk, dim, dim, dim, true});      // logits
    add("gemm_nn", {nn, kBatch, dim, kChunk, kChunk, dim, true});   // activations' gradient
    add("gemm_tn", {tn, kChunk, dim, kBatch, kChunk, dim, false});  // weights' gradient
  }
}

// Values settle near 1; the time does not depend on them.
void Exponentials(benchmark::State& state, const Kernels& kernels) {
  std::vector<float> z = RandomFloats(kBatch * kChunk, 1);
  for (auto _ : state) {
    for (size_t i = 0; i < kBatch; ++i) {
      float* row = z.data() + i * kChunk;
      benchmark::DoNotOptimize(kernels.exp_sum(kChunk, kernels.max(kChunk, row), row));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(z.size()));
}

}  // namespace

void RegisterProductBenches() {
  for (const char* name : {"scalar", "avx2", "avx512"}) {
    const Kernels* kernels = KernelsByName(name);
    if (kernels == nullptr) continue;
    RegisterVariant<float>(fmt::format("fp32/{}", name), kernels->gemm_nt, kernels->gemm_nn,
                           kernels->gemm_tn);
    benchmark::RegisterBenchmark(fmt::format("max+exp_sum/{}", name).c_str(), Exponentials,
                                 *kernels);
  }
  for (const char* name : {"scalar", "amx"}) {
    const Bf16Gemm* gemm = Bf16GemmByName(name);
    if (gemm == nullptr) continue;
    RegisterVariant<uint16_t>(fmt::format("bf16/{}", name), gemm->nt, gemm->nn, gemm->tn);
  }
}

}  // namespace dslide
