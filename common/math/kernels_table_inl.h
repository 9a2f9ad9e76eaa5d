// The table of the kernels that the including file defines.
#pragma once

#include "common/math/kernels.h"

namespace dslide {
namespace {

using GemmFunction = decltype(Kernels::gemm_nt);

// Overloads and templates are chosen by the types of the table's members.
constexpr Kernels MakeKernels(const char* name, GemmFunction nt, GemmFunction nn, GemmFunction tn) {
  return {.name = name,
          .gemm_nt = nt,
          .gemm_nn = nn,
          .gemm_tn = tn,
          .dot = Dot,
          .axpy = Axpy,
          .weighted_sum = WeightedSum,
          .max = Max,
          .exp_sum = ExpSum,
          .scale_add = ScaleAdd,
          .sparsify = Sparsify,
          .adam = Adam,
          .adam_bf16 = AdamOf,
          .adam_all_bf16 = AdamOf,
          .axpy_bf16 = AxpyBf16,
          .dot_bf16 = Dot,
          .weighted_sum_bf16 = WeightedSum,
          .to_bf16 = ToBf16,
          .from_bf16 = FromBf16,
          .max_abs = MaxAbs,
          .to_int8 = ToInt8,
          .to_int8_carry = ToInt8Carry,
          .from_int8 = FromInt8,
          .pack_nonzero = PackNonzero,
          .pack_nonzero_bf16 = PackNonzero,
          .pack_nonzero_bytes = PackNonzero,
          .unpack_nonzero = UnpackNonzero,
          .unpack_nonzero_bf16 = UnpackNonzero,
          .unpack_nonzero_int8 = UnpackNonzero,
          .transpose16 = Transpose16,
          .wta16 = Wta16};
}

}  // namespace
}  // namespace dslide
