// Declarations shared by the variants of Bf16Gemm and the dispatch in bf16_gemm.cc.
#pragma once

#include "common/math/bf16_gemm.h"

namespace dslide {

extern const Bf16Gemm kScalarBf16Gemm;
#if defined(__x86_64__)
extern const Bf16Gemm kAmxBf16Gemm;
#endif

// Whether `gemm` multiplies some matrices of small integers, whose sums are exact in any order, as
// the specification does.
bool PassesSelfCheck(const Bf16Gemm& gemm);

}  // namespace dslide
