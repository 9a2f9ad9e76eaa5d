// Bucket codes of a batch of neurons, as rehashing computes them.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "server/model/lsh/hash_family.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

constexpr size_t kNeurons = 512;

void Codes(benchmark::State& state, const HashConfig& config, uint32_t dim) {
  const auto functions = HashFunctions::Make(config, dim, 1, BestKernels());
  const std::vector<float> x = RandomFloats(kNeurons * dim, 2);
  std::vector<BucketCode> codes(kNeurons * functions->tables());
  for (auto _ : state) {
    functions->Codes(kNeurons, x.data(), dim, codes.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * int64_t{kNeurons});
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(x.size() * sizeof(float)));
}

void Register(const char* name, const HashConfig& config) {
  for (const uint32_t dim : {128u, 512u}) {
    benchmark::RegisterBenchmark(
        fmt::format("Codes/{}/K:{}/L:{}/H:{}", name, config.k, config.tables, dim).c_str(), Codes,
        config, dim);
  }
}

}  // namespace

void RegisterHashBenches() {
  Register("dwta", {.family = HashFamily::kDwta, .k = 4, .tables = 50});
  Register("dwta", {.family = HashFamily::kDwta, .k = 5, .tables = 24});
  Register("simhash", {.family = HashFamily::kSimHash, .k = 12, .tables = 24});
}

}  // namespace dslide
