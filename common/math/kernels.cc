#include "common/math/kernels.h"

#include <cstdlib>
#include <memory>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/base/check.h"
#include "common/math/kernels_internal.h"

namespace dslide {
namespace {

constexpr size_t kCacheLine = 64;

struct FreeDeleter {
  void operator()(float* memory) const { std::free(memory); }
};

struct Scratch {
  std::unique_ptr<float, FreeDeleter> memory;
  size_t floats = 0;
};

#if defined(__x86_64__)
bool CpuHasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

bool CpuHasAvx512() {
  return CpuHasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const Kernels& ChooseBest() {
#if defined(__x86_64__)
  if (CpuHasAvx512()) return kAvx512Kernels;
  if (CpuHasAvx2()) return kAvx2Kernels;
#endif
  return kScalarKernels;
}

}  // namespace

const Kernels& BestKernels() {
  static const Kernels& best = ChooseBest();
  return best;
}

const Kernels* KernelsByName(std::string_view name) {
  if (name == kScalarKernels.name) return &kScalarKernels;
#if defined(__x86_64__)
  if (name == kAvx2Kernels.name && CpuHasAvx2()) return &kAvx2Kernels;
  if (name == kAvx512Kernels.name && CpuHasAvx512()) return &kAvx512Kernels;
#endif
  return nullptr;
}

void FlushDenormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
  constexpr uint64_t kFlushToZero = uint64_t{1} << 24;  // FPCR.FZ, operands and results
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | kFlushToZero));
#endif
}

float* GemmScratch(size_t floats) {
  thread_local Scratch scratch;
  if (scratch.floats < floats) {
    const size_t bytes = (floats * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
    scratch.memory.reset(static_cast<float*>(std::aligned_alloc(kCacheLine, bytes)));
    DSLIDE_CHECK(scratch.memory != nullptr);
    scratch.floats = floats;
  }
  return scratch.memory.get();
}

}  // namespace dslide
