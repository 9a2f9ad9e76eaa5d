#include "common/math/bf16_gemm.h"

#include <bit>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "common/log/events.h"
#include "common/log/log.h"
#include "common/math/bf16_gemm_internal.h"
#include "common/math/kernels.h"

namespace dslide {
namespace {

// `size` integers from -3 to 3, as bfloat16.
std::vector<uint16_t> SmallIntegers(size_t size, size_t seed) {
  std::vector<uint16_t> values(size);
  for (size_t i = 0; i < size; ++i) {
    const float value = static_cast<float>((i * i + seed * i) % 7) - 3.0f;
    values[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
  return values;
}

#if defined(__x86_64__)
// Whether the operating system saves the tiles' state (Intel SDM vol. 1, 13.3: bits 17 and 18 of
// XCR0, which can be read if CPUID reports OSXSAVE).
bool SystemSavesTiles() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE)) return false;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;
  return (low & kTileState) == kTileState;
}

// Linux lets a process use tiles once it has requested them (Documentation/arch/x86/xstate.rst).
bool SystemPermitsTiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool DetectAmx() {
  constexpr unsigned kAmxBf16AndTile = (1u << 22) | (1u << 24);
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  return (edx & kAmxBf16AndTile) == kAmxBf16AndTile && KernelsByName("avx512") != nullptr &&
         SystemSavesTiles() && SystemPermitsTiles();
}

bool CpuHasAmx() {
  static const bool has_amx = DetectAmx();
  return has_amx;
}
#endif

const Bf16Gemm* ChooseBest() {
#if defined(__x86_64__)
  if (CpuHasAmx()) {
    if (PassesSelfCheck(kAmxBf16Gemm)) return &kAmxBf16Gemm;
    LogWarning({event::kAmxUnused,
                "not using this CPU's AMX: it failed the check of its matrix products"});
  }
#endif
  return nullptr;
}

}  // namespace

bool PassesSelfCheck(const Bf16Gemm& gemm) {
  // More than one tile in each direction, with edges, and more than one block of the depth.
  constexpr size_t kM = 37, kN = 45, kK = 531;
  const std::vector<uint16_t> a = SmallIntegers(kM * kK, 3);
  const std::vector<uint16_t> b = SmallIntegers(kN * kK, 5);
  std::vector<float> expected(kM * kN, 1.0f);
  std::vector<float> actual = expected;
  kScalarBf16Gemm.nt(kM, kN, kK, a.data(), kK, b.data(), kK, expected.data(), kN, true);
  gemm.nt(kM, kN, kK, a.data(), kK, b.data(), kK, actual.data(), kN, true);
  kScalarBf16Gemm.nn(kM, kN, kK, a.data(), kK, b.data(), kN, expected.data(), kN, true);
  gemm.nn(kM, kN, kK, a.data(), kK, b.data(), kN, actual.data(), kN, true);
  if (actual != expected) return false;
  kScalarBf16Gemm.tn(kM, kN, kK, a.data(), kM, b.data(), kN, expected.data(), kN, false);
  gemm.tn(kM, kN, kK, a.data(), kM, b.data(), kN, actual.data(), kN, false);
  return actual == expected;
}

const Bf16Gemm* BestBf16Gemm() {
  static const Bf16Gemm* const best = ChooseBest();
  return best;
}

const Bf16Gemm* Bf16GemmByName(std::string_view name) {
  if (name == kScalarBf16Gemm.name) return &kScalarBf16Gemm;
#if defined(__x86_64__)
  if (name == kAmxBf16Gemm.name && CpuHasAmx()) return &kAmxBf16Gemm;
#endif
  return nullptr;
}

}  // namespace dslide
