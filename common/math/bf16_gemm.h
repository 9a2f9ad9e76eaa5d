// Products of bfloat16 matrices with float sums, chosen at run time.
//
// A bfloat16 is the upper half of a float, here in a uint16_t. Matrices are row-major with strides
// in elements, as in kernels.h; no alignment is required. c must not overlap a or b.
//
// bf16_gemm_scalar.cc is the specification. AMX forms each sum in another order, which is fixed by
// k alone: results repeat bit for bit on one machine, and an element of c does not depend on which
// other rows and columns are computed with it. AMX rounds to nearest even whatever the thread's
// mode is, and takes denormal operands and results for 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dslide {

struct Bf16Gemm {
  std::string_view name;  // "scalar", "amx"

  // c[m x n] (+)= a[m x k] * b[n x k]^T. `accumulate` adds to c, otherwise c is overwritten.
  void (*nt)(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
             size_t ldb, float* c, size_t ldc, bool accumulate);
  // c[m x n] (+)= a[m x k] * b[k x n].
  void (*nn)(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
             size_t ldb, float* c, size_t ldc, bool accumulate);
  // c[m x n] (+)= a[k x m]^T * b[k x n].
  void (*tn)(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
             size_t ldb, float* c, size_t ldc, bool accumulate);
};

// AMX where it works, else nullptr: other bf16 instructions do not beat int8 products
// (int8_scan.h). Chosen once.
const Bf16Gemm* BestBf16Gemm();

// A variant by name; nullptr if this build or this CPU lacks it. "scalar" is always there.
const Bf16Gemm* Bf16GemmByName(std::string_view name);

}  // namespace dslide
