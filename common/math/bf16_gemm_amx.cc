// The products on AMX tiles. Runs only where bf16_gemm.cc finds them.
#include "common/math/bf16_gemm_amx_inl.h"
#include "common/math/bf16_gemm_internal.h"

namespace dslide {
namespace {

// Assembly instead of immintrin.h's _tile_*: GCC's are macros that take literal numbers only, and
// do not tell the compiler that they read and write memory.
struct AmxTile {
  // Intel SDM vol. 2, LDTILECFG: byte layout of the tile configuration.
  struct Config {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Config) == 64);

  static void Configure() {
    static constexpr Config kConfig;
    __asm__ volatile("ldtilecfg %0" : : "m"(kConfig));
  }

  static void Release() { __asm__ volatile("tilerelease"); }

  template <int kTile>
  static void Load(const float* from, size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "i"(kTile)
                     : "memory");
  }

  template <int kTile>
  static void Store(float* to, size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(to), "r"(stride), "i"(kTile)
                     : "memory");
  }

  template <int kTile>
  static void Zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }

  template <int kC, int kA, int kB>
  static void MultiplyAdd() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace

constinit const Bf16Gemm kAmxBf16Gemm = MakeBf16Gemm<AmxKernel<AmxTile>>("amx");

}  // namespace dslide
