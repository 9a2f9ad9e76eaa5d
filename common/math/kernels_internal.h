// Declarations shared by the instruction sets' kernel files and the dispatch in kernels.cc.
#pragma once

#include <cstddef>

#include "common/math/kernels.h"

namespace dslide {

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

// At least `floats` floats, aligned to 64 bytes, that the calling thread owns until its next call.
// Lives here, in a file compiled for the baseline, because the kernel files must not instantiate
// library code: the linker could pick their copy, with instructions that the CPU lacks.
float* GemmScratch(size_t floats);

}  // namespace dslide
