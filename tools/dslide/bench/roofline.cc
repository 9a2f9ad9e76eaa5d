#include "tools/dslide/bench/roofline.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "common/base/huge_buffer.h"
#include "common/base/random.h"
#include "common/math/bf16_gemm.h"
#include "common/math/kernels.h"
#include "common/math/prefetch.h"

namespace dslide {
namespace {

using Clock = std::chrono::steady_clock;

// Runs work(thread) on all threads at once, repeatedly for `seconds`; work returns the amount done.
// Returns the sum over threads of work done per second.
template <typename Work>
double RateOf(uint32_t threads, double seconds, const Work& work) {
  std::barrier start(threads);
  std::vector<double> rates(threads);
  std::vector<std::jthread> pool;
  for (uint32_t t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      FlushDenormals();
      (void)work(t);  // warm
      start.arrive_and_wait();
      const auto begin = Clock::now();
      double done = 0;
      double elapsed = 0;
      while (elapsed < seconds) {
        done += work(t);
        elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
      }
      rates[t] = done / elapsed;
    });
  }
  pool.clear();
  double total = 0;
  for (const double rate : rates) total += rate;
  return total;
}

double RandomRowBandwidth(uint32_t threads, uint64_t rows, uint32_t row_bytes) {
  const Kernels& kernels = BestKernels();
  const size_t dim = row_bytes / sizeof(float);
  constexpr size_t kRowsARound = 4096;
  const size_t ahead = PrefetchDistance(row_bytes);
  rows = std::max<uint64_t>(rows, threads);
  HugeBuffer<float> table(rows * dim);
  for (size_t i = 0; i < table.size(); i += 1024) table[i] = 1.0f;
  const std::vector<float> change(dim, 1e-3f);
  std::vector<std::vector<uint64_t>> order(threads);
  std::vector<Random> random;
  for (uint32_t t = 0; t < threads; ++t) random.emplace_back(t);
  return RateOf(threads, 0.15, [&](uint32_t t) {
    // A thread draws from its own part of the table.
    const uint64_t part = rows / threads;
    order[t].resize(kRowsARound);
    for (uint64_t& row : order[t]) row = part * t + random[t].Below(part);
    for (size_t i = 0; i < kRowsARound; ++i) {
      if (i + ahead < kRowsARound) {
        Prefetch(table.data() + order[t][i + ahead] * dim, row_bytes);
      }
      kernels.axpy(dim, 0.5f, change.data(), table.data() + order[t][i] * dim);
    }
    return 2.0 * kRowsARound * row_bytes;
  });
}

double MatrixRate(uint32_t threads, Products products) {
  const Kernels& kernels = BestKernels();
  const Bf16Gemm* bf16 = products == Products::kBf16 ? BestBf16Gemm() : nullptr;
  constexpr size_t kSide = 192;
  return RateOf(threads, 0.1, [&](uint32_t) {
    thread_local std::vector<float> a(kSide * kSide, 1e-3f), b(a), c(a);
    thread_local std::vector<uint16_t> narrow(kSide * kSide, 0x3a83);
    if (bf16 != nullptr) {
      bf16->nn(kSide, kSide, kSide, narrow.data(), kSide, narrow.data(), kSide, c.data(), kSide,
               false);
    } else {
      kernels.gemm_nn(kSide, kSide, kSide, a.data(), kSide, b.data(), kSide, c.data(), kSide,
                      false);
    }
    return 2.0 * kSide * kSide * kSide;
  });
}

}  // namespace

Roofline MeasureRoofline(uint32_t threads, uint64_t rows, uint32_t row_bytes, Products products) {
  return {RandomRowBandwidth(threads, rows, row_bytes), MatrixRate(threads, products)};
}

}  // namespace dslide
