// Dense float kernels with run-time dispatch: one table of functions per instruction set.
//
// kernels_scalar.cc is the specification; kernels_avx2.cc and kernels_avx512.cc are the same
// algorithms over wider vectors. All matrices are row-major with a stride (leading dimension) in
// floats; a[i*lda + j] is element (i, j). No alignment is required. Sums are formed in a fixed
// order for given shapes and instruction set, so results repeat bit for bit on one machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dslide {

// Hyper-parameters of one Adam step on one row. `step_size` is lr * sqrt(1-b2^t) / (1-b1^t) and
// `epsilon` is eps * sqrt(1-b2^t), both for the row's own count t (Kingma & Ba 2015, section 2).
struct AdamStep {
  float step_size;
  float beta1;
  float beta2;
  float epsilon;
};

// 32 random bits for element i of a vector that is rounded with this `noise`: the finaliser
// "lowbias32" of Wellons' hash prospector over a Weyl sequence. Equal in all kernels and on all
// machines.
inline uint32_t RoundingNoise(uint32_t noise, uint32_t i) {
  uint32_t x = noise + i * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// x in bfloat16, rounded up or down with probabilities that make the mean exact: a small update is
// not lost, as it would be in rounding to nearest (Gupta et al.: "Deep Learning with Limited
// Numerical Precision", ICML 2015, section 3). `bits` are 16 random bits. Finite x only.
inline uint16_t StochasticBf16(float x, uint32_t bits) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + (bits & 0xffffu)) >> 16);
}

struct Kernels {
  std::string_view name;  // "scalar", "avx2", "avx512"

  // c[m x n] (+)= a[m x k] * b[n x k]^T. `accumulate` adds to c, otherwise c is overwritten.
  void (*gemm_nt)(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b,
                  size_t ldb, float* c, size_t ldc, bool accumulate);
  // c[m x n] (+)= a[m x k] * b[k x n].
  void (*gemm_nn)(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b,
                  size_t ldb, float* c, size_t ldc, bool accumulate);
  // c[m x n] (+)= a[k x m]^T * b[k x n].
  void (*gemm_tn)(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b,
                  size_t ldb, float* c, size_t ldc, bool accumulate);

  // Returns sum_i x[i]*y[i].
  float (*dot)(size_t n, const float* x, const float* y);
  // y[i] += a * x[i].
  void (*axpy)(size_t n, float a, const float* x, float* y);
  // out[i] = sum_e weights[e] * x[rows[e]*stride + i] for i < n and e < count, in that order.
  void (*weighted_sum)(size_t n, size_t count, const uint32_t* rows, const float* weights,
                       const float* x, size_t stride, float* out);
  // Largest x[i]; -infinity for n = 0.
  float (*max)(size_t n, const float* x);
  // x[i] = exp(x[i] - shift) with a relative error below 1e-6; 0 where that is below the normal
  // numbers, a finite maximum where it is above. Returns the sum.
  float (*exp_sum)(size_t n, float shift, float* x);
  // x[i] *= a, then sum[i] += x[i].
  void (*scale_add)(size_t n, float a, float* x, float* sum);
  // Adds a * x[i] to sum[i]. Appends (i, y) to index and value, where y = a * x[i] - b * z[i], if
  // |y| >= threshold; otherwise (i, threshold with the sign of y) with probability |y| / threshold,
  // which keeps the mean (Wangni et al.: "Gradient Sparsification for Communication-Efficient
  // Distributed Optimization", NeurIPS 2018, section 3). The random number of an element is noise +
  // noises[i] modulo 2^32, over 2^32: with random `noise` and `noises` any two are independent, so
  // variances add up. Returns how many were appended, at most n.
  size_t (*sparsify)(size_t n, float a, const float* x, float b, const float* z, float threshold,
                     uint32_t noise, const uint32_t* noises, float* sum, uint32_t* index,
                     float* value);

  // One Adam step with gradient g on w, first moment m, second moment v (n each):
  // m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; w -= step_size * m / (sqrt(v) + epsilon), the step
  // with a relative error below 1e-6.
  void (*adam)(size_t n, const AdamStep& step, const float* g, float* w, float* m, float* v);

  // The same with w in bfloat16, and the moments in float or bfloat16: arithmetic in float, results
  // rounded stochastically (see StochasticBf16) by `noise` and the element's number.
  void (*adam_bf16)(size_t n, const AdamStep& step, const float* g, uint16_t* w, float* m, float* v,
                    uint32_t noise);
  void (*adam_all_bf16)(size_t n, const AdamStep& step, const float* g, uint16_t* w, uint16_t* m,
                        uint16_t* v, uint32_t noise);
  // y[i] += a * x[i], rounded stochastically.
  void (*axpy_bf16)(size_t n, float a, const float* x, uint16_t* y, uint32_t noise);
  // dot and weighted_sum with bfloat16 y and x.
  float (*dot_bf16)(size_t n, const float* x, const uint16_t* y);
  void (*weighted_sum_bf16)(size_t n, size_t count, const uint32_t* rows, const float* weights,
                            const uint16_t* x, size_t stride, float* out);

  // Round-to-nearest-even conversion to and from bfloat16 (the upper half of a float).
  void (*to_bf16)(size_t n, const float* x, uint16_t* y);
  void (*from_bf16)(size_t n, const uint16_t* x, float* y);

  // Largest |x[i]|; 0 for n = 0. A NaN counts as more than infinity.
  float (*max_abs)(size_t n, const float* x);
  // y[i] = x[i] / scale rounded to nearest (ties to even) and clamped to -127 .. 127, but 1 or -1
  // instead of 0 where x[i] is not 0. `inverse` is 1 / scale. These four give the same bits in
  // every variant.
  void (*to_int8)(size_t n, const float* x, float inverse, int8_t* y);
  // The same of x[i] + carry[i], but y[i] may be 0; the rounding error becomes carry[i]. Where x[i]
  // is 0, y[i] is 0 and carry[i] stays. REQUIRES a scale of at most 17 significant bits: its
  // product with 7 bits is then exact, whether or not it is fused with the subtraction.
  void (*to_int8_carry)(size_t n, const float* x, float scale, float inverse, float* carry,
                        int8_t* y);
  // y[i] = x[i] * scale.
  void (*from_int8)(size_t n, const int8_t* x, float scale, float* y);

  // A vector without its zeros, and where it has none: bit i of `bitmap` (byte i / 8, lowest first)
  // is whether x[i] is not 0; those elements go to `packed`, in order, as they are or in bfloat16.
  // Writes (n + 7) / 8 bytes of bitmap, bits beyond n are 0. `packed` has room for n elements, of
  // which the ones after the last are scratch. Returns how many there are.
  size_t (*pack_nonzero)(size_t n, const float* x, uint8_t* bitmap, float* packed);
  size_t (*pack_nonzero_bf16)(size_t n, const float* x, uint8_t* bitmap, uint16_t* packed);
  size_t (*pack_nonzero_bytes)(size_t n, const uint8_t* x, uint8_t* bitmap, uint8_t* packed);
  // The inverse for elements [first, first + n) of the vector, which become out[0 .. n): `packed`
  // points at the first of theirs and `left` more can be read from there. Returns how many they
  // have. int8 is multiplied by `scale`. REQUIRES that bits of no more than `left` are set.
  size_t (*unpack_nonzero)(size_t n, const uint8_t* bitmap, size_t first, const float* packed,
                           size_t left, float* out);
  size_t (*unpack_nonzero_bf16)(size_t n, const uint8_t* bitmap, size_t first,
                                const uint16_t* packed, size_t left, float* out);
  size_t (*unpack_nonzero_int8)(size_t n, const uint8_t* bitmap, size_t first, const int8_t* packed,
                                size_t left, float scale, float* out);

  // block[d*16 + i] = x[i*stride + d] for d < dim: up to 16 vectors side by side, zeros beyond
  // count.
  void (*transpose16)(size_t count, size_t dim, const float* x, size_t stride, float* block);

  // Winner-take-all codes of 16 vectors at once. `block` is [dim x 16]: element (d, lane) of vector
  // `lane`. `coordinates` is [hashes x bin]: hash t looks at coordinates[t*bin .. t*bin+bin).
  // codes[t*16 + lane] = position within the bin of the largest value that is != 0 (the first of
  // equal ones), or 0xff if all of the bin's values are 0. bin <= 16.
  void (*wta16)(size_t hashes, size_t bin, const uint16_t* coordinates, const float* block,
                uint8_t* codes);
};

// The best kernels that this CPU has. Environment-free, chosen once.
const Kernels& BestKernels();

// Kernels by name ("scalar", "avx2", "avx512"); nullptr if this build or this CPU lacks them.
const Kernels* KernelsByName(std::string_view name);

// Sets flush-to-zero and denormals-are-zero for the calling thread, where the CPU has them.
// Every compute thread calls it first: denormal moments slow the update down up to 12 times.
void FlushDenormals();

}  // namespace dslide
