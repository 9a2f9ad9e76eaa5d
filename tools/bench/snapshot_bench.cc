// The mark and the slices of a snapshot: the pauses that a checkpoint causes in training.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "server/executor/executor.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

// Accepts everything, keeps nothing.
class NullSink : public SnapshotSink {
 public:
  bool HasRoom(uint32_t) override { return true; }
  void AwaitRoom(uint32_t, uint32_t) override {}
  void Put(uint32_t, RowChunk chunk) override { benchmark::DoNotOptimize(chunk.bytes.data()); }
  void Finish(uint32_t, std::string record) override { benchmark::DoNotOptimize(record.data()); }
};

// An executor with `rows` output rows, a batch's worth of them unsettled.
std::unique_ptr<Executor> MakeExecutor(uint32_t rows) {
  Config config;
  config.model.hidden = 128;
  config.hash.tables = 24;
  ResolveConfig(100'000, rows, &config);
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < config.cluster.slots; ++s) slots.push_back({s});
  auto executor = std::make_unique<Executor>(config, uint64_t{1} << 32, slots, 0,
                                             Purpose::kTraining, BestKernels());
  executor->Initialise();
  executor->output().FollowActivations(RandomFloats(config.model.hidden, 1));
  return executor;
}

// BeginSnapshot() by itself.
void Mark(benchmark::State& state) {
  const auto executor = MakeExecutor(static_cast<uint32_t>(state.range(0)));
  NullSink sink;
  for (auto _ : state) {
    executor->BeginSnapshot(&sink);
    state.PauseTiming();
    executor->AbortSnapshot();
    state.ResumeTiming();
  }
}

// One AdvanceSnapshot() per iteration; the counter is the longest one, in microseconds.
void Slice(benchmark::State& state) {
  const auto executor = MakeExecutor(static_cast<uint32_t>(state.range(0)));
  NullSink sink;
  double longest = 0;
  for (auto _ : state) {
    if (!executor->snapshot_in_progress()) {
      state.PauseTiming();
      executor->AbortSnapshot();
      executor->BeginSnapshot(&sink);
      state.ResumeTiming();
    }
    const auto begin = std::chrono::steady_clock::now();
    executor->AdvanceSnapshot();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    longest = std::max(longest, took.count());
  }
  state.counters["longest_us"] = longest;
}

}  // namespace

void RegisterSnapshotBenches() {
  benchmark::RegisterBenchmark("SnapshotMark", Mark)->ArgName("rows")->Arg(335'000);
  benchmark::RegisterBenchmark("SnapshotSlice", Slice)->ArgName("rows")->Arg(335'000);
}

}  // namespace dslide
