// Queries and construction of the hash tables at the sizes of real label sets.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "server/model/lsh/candidate_ranker.h"
#include "server/model/lsh/hash_family.h"
#include "server/model/lsh/hash_tables.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

constexpr uint32_t kHashedDim = 128;
constexpr uint32_t kQueries = 16384;  // hit 2 of 5 buckets of 670,091 rows: 25 MB

// The default hash functions for `neurons` neurons.
std::unique_ptr<HashFunctions> FunctionsFor(uint32_t neurons) {
  Config config;
  config.model.hidden = kHashedDim;
  ResolveConfig(neurons, neurons, &config);
  return HashFunctions::Make(config.hash, kHashedDim, 1, BestKernels());
}

// Codes of random vectors, [count x tables].
std::vector<BucketCode> RandomCodes(const HashFunctions& functions, uint32_t count, uint64_t seed) {
  constexpr uint32_t kChunk = 512;
  std::vector<BucketCode> codes(size_t{count} * functions.tables());
  for (uint32_t begin = 0; begin < count; begin += kChunk) {
    const uint32_t size = std::min(kChunk, count - begin);
    functions.Codes(size, RandomFloats(size_t{size} * kHashedDim, seed + begin).data(), kHashedDim,
                    codes.data() + size_t{begin} * functions.tables());
  }
  return codes;
}

struct Index {
  explicit Index(uint32_t rows)
      : functions(FunctionsFor(rows)), tables(functions->tables(), functions->bits(), rows) {
    const std::vector<BucketCode> codes = RandomCodes(*functions, rows, 1'000'000);
    for (uint32_t row = 0; row < rows; ++row) {
      tables.SetCodes(row, {codes.data() + size_t{row} * tables.size(), tables.size()});
    }
    tables.BuildAll();
  }

  std::unique_ptr<HashFunctions> functions;
  HashTables tables;
};

// Built once and kept: 130 MB for all three sizes.
Index& IndexOf(int64_t rows) {
  static std::map<int64_t, Index> built;
  return built.try_emplace(rows, static_cast<uint32_t>(rows)).first->second;
}

// One query per iteration; the next query's buckets are prefetched, as ActiveSetBuilder does.
void Rank(benchmark::State& state) {
  const Index& index = IndexOf(state.range(0));
  const auto limit = static_cast<uint32_t>(state.range(1));
  const size_t tables = index.tables.size();
  const std::vector<BucketCode> codes = RandomCodes(*index.functions, kQueries, 2'000'000);
  const auto codes_of = [&](size_t query) {
    return std::span(codes.data() + query % kQueries * tables, tables);
  };
  CandidateRanker ranker(index.tables.rows());
  std::vector<uint32_t> picked;
  uint64_t entries = 0;
  size_t query = 0;
  for (auto _ : state) {
    picked.clear();
    CandidateRanker::Prefetch(index.tables, codes_of(query + 1));
    entries += ranker.Rank(index.tables, codes_of(query++), limit, &picked);
    benchmark::DoNotOptimize(picked.data());
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["entries/s"] =
      benchmark::Counter(static_cast<double>(entries), benchmark::Counter::kIsRate);
}

// One table per iteration, in turn: the work of BuildAll(), divided by L.
void BuildTable(benchmark::State& state) {
  HashTables& tables = IndexOf(state.range(0)).tables;
  for (auto _ : state) tables.Advance(tables.StepsOfAllTables() / tables.size());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Room for one more slot of 256 per iteration: training pauses for this when slots arrive.
void GrowTables(benchmark::State& state) {
  auto rows = static_cast<uint32_t>(state.range(0));
  Index index(rows);
  for (auto _ : state) index.tables.Resize(rows += static_cast<uint32_t>(state.range(0)) / 256);
}

}  // namespace

void RegisterTableBenches() {
  for (const int64_t rows : {41'218, 205'419, 670'091}) {
    benchmark::RegisterBenchmark("Rank", Rank)
        ->ArgNames({"rows", "limit"})
        ->Args({rows, 10})
        ->Args({rows, 20});
    benchmark::RegisterBenchmark("BuildTable", BuildTable)->ArgName("rows")->Arg(rows);
    benchmark::RegisterBenchmark("GrowTables", GrowTables)
        ->ArgName("rows")
        ->Arg(rows)
        ->Iterations(10)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace dslide
