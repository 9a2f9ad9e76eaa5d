// dslide-microbench: matrix products of every kernel family, and the work that an executor counts
// for its slots, on one core.
//
//   dslide-microbench --benchmark_filter=gemm --benchmark_repetitions=5
//
// `dslide bench` measures whole steps. All flags are Google Benchmark's.
#include <benchmark/benchmark.h>

#include <vector>

#include "common/math/kernels.h"
#include "tools/bench/benches.h"

int main(int argc, char** argv) {
  dslide::FlushDenormals();
  benchmark::SetDefaultTimeUnit(benchmark::kMicrosecond);
  // Before the user's flags, which therefore win.
  char min_time[] = "--benchmark_min_time=0.1";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + 1, min_time);
  auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;

  dslide::RegisterProductBenches();
  dslide::RegisterLoadBenches();
  return benchmark::RunSpecifiedBenchmarks() > 0 ? 0 : 1;
}
