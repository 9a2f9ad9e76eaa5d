// Declarations shared by the instruction sets' files and the dispatch in gemm.cc.
#pragma once

#include "common/math/reproducible/gemm.h"

namespace dslide {

extern const ReproducibleGemm kScalarReproducibleGemm;
#if defined(__x86_64__)
extern const ReproducibleGemm kAvx2ReproducibleGemm;
extern const ReproducibleGemm kAvx512ReproducibleGemm;
#endif

}  // namespace dslide
