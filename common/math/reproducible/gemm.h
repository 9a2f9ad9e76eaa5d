// Matrix products whose bits are the same on all machines.
//
// The products of kernels.h repeat on one machine only. Where two machines' results are compared
// (audits), these are used: an element is the sum of its products in ascending order of the inner
// index, each product and each sum rounded to float by itself. Vectors run across elements, never
// along a sum, and nothing is compiled to fused multiply-adds, so that neither the width of vectors
// nor the blocking shows. gemm_scalar.cc, for the baseline, and the others for wider
// vectors give the same bits, also in sign and where sums are infinite; which NaN a NaN is may
// differ. (All threads that are compared have to flush denormals, or none: FlushDenormals().)
//
// Matrices as in kernels.h: row-major, a[i*lda + j] is element (i, j). Any thread may call.
#pragma once

#include <cstddef>
#include <string_view>

namespace dslide {

struct ReproducibleGemm {
  using Product = void (*)(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b,
                           size_t ldb, float* c, size_t ldc, bool accumulate);

  std::string_view name;  // "scalar", "avx2", "avx512"
  // `accumulate`: sums begin with what c has, otherwise with 0.
  Product nt;  // c[m x n] (+)= a[m x k] * b[n x k]^T
  Product nn;  // c[m x n] (+)= a[m x k] * b[k x n]
  Product tn;  // c[m x n] (+)= a[k x m]^T * b[k x n]
};

// The fastest that this CPU has.
const ReproducibleGemm& BestReproducibleGemm();

// By name; nullptr if this build or this CPU lacks it.
const ReproducibleGemm* ReproducibleGemmByName(std::string_view name);

}  // namespace dslide
