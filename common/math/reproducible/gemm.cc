#include "common/math/reproducible/gemm.h"

#include "common/math/kernels.h"
#include "common/math/reproducible/gemm_internal.h"

namespace dslide {

const ReproducibleGemm& BestReproducibleGemm() {
  static const ReproducibleGemm& best = *ReproducibleGemmByName(BestKernels().name);
  return best;
}

const ReproducibleGemm* ReproducibleGemmByName(std::string_view name) {
  if (KernelsByName(name) == nullptr) return nullptr;
#if defined(__x86_64__)
  if (name == kAvx2ReproducibleGemm.name) return &kAvx2ReproducibleGemm;
  if (name == kAvx512ReproducibleGemm.name) return &kAvx512ReproducibleGemm;
#endif
  return &kScalarReproducibleGemm;
}

}  // namespace dslide
