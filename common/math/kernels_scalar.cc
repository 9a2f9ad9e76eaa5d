// The specification of the kernels, and what runs on machines without AVX2.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/math/kernels_internal.h"

namespace dslide {
namespace {

// Independent partial sums hide the latency of the addition and let the compiler use whatever
// baseline vectors the target has.
constexpr size_t kPartialSums = 8;

// Rows of b that are used by every row of a before the next ones: 128 rows of 1,024 floats are half
// of a 1 MB L2 cache.
constexpr size_t kBlock = 128;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A vector's element as float, and back; element i uses one half of its 32 random bits for each of
// two vectors.
float Read(const float* x, size_t i) { return x[i]; }
float Read(const uint16_t* x, size_t i) { return std::bit_cast<float>(uint32_t{x[i]} << 16); }
void Write(float value, uint32_t, float* x, size_t i) { x[i] = value; }
void Write(float value, uint32_t bits, uint16_t* x, size_t i) {
  x[i] = StochasticBf16(value, bits);
}

float Dot(size_t n, const float* x, const float* y) {
  float sums[kPartialSums] = {};
  size_t i = 0;
  for (; i + kPartialSums <= n; i += kPartialSums) {
    for (size_t lane = 0; lane < kPartialSums; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (size_t lane = 0; i < n; ++i, ++lane) sums[lane] += x[i] * y[i];
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

float Dot(size_t n, const float* x, const uint16_t* y) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double{x[i]} * double{Read(y, i)};
  return static_cast<float>(sum);
}

void Axpy(size_t n, float a, const float* x, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void Clear(size_t m, size_t n, float* c, size_t ldc) {
  for (size_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, 0.0f);
}

void GemmNt(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
            float* c, size_t ldc, bool accumulate) {
  for (size_t begin = 0; begin < n; begin += kBlock) {
    const size_t end = std::min(n, begin + kBlock);
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = begin; j < end; ++j) {
        const float sum = Dot(k, a + i * lda, b + j * ldb);
        c[i * ldc + j] = accumulate ? c[i * ldc + j] + sum : sum;
      }
    }
  }
}

void GemmNn(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
            float* c, size_t ldc, bool accumulate) {
  if (!accumulate) Clear(m, n, c, ldc);
  for (size_t begin = 0; begin < k; begin += kBlock) {
    const size_t end = std::min(k, begin + kBlock);
    for (size_t i = 0; i < m; ++i) {
      for (size_t p = begin; p < end; ++p) Axpy(n, a[i * lda + p], b + p * ldb, c + i * ldc);
    }
  }
}

void GemmTn(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
            float* c, size_t ldc, bool accumulate) {
  if (!accumulate) Clear(m, n, c, ldc);
  for (size_t begin = 0; begin < m; begin += kBlock) {
    const size_t end = std::min(m, begin + kBlock);
    for (size_t p = 0; p < k; ++p) {
      for (size_t i = begin; i < end; ++i) Axpy(n, a[p * lda + i], b + p * ldb, c + i * ldc);
    }
  }
}

float Max(size_t n, const float* x) {
  float best = -kInfinity;
  for (size_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// exp(x), 0 where the result would be denormal, and finite for every finite x.
float Exp(float x) {
  constexpr float kLowest = -87.33f;
  constexpr float kHighest = 88.37f;
  return x < kLowest ? 0.0f : std::exp(x > kHighest ? kHighest : x);
}

template <typename X>
void WeightedSum(size_t n, size_t count, const uint32_t* rows, const float* weights, const X* x,
                 size_t stride, float* out) {
  for (size_t i = 0; i < n; ++i) {
    float sum = 0;
    for (size_t e = 0; e < count; ++e) sum += weights[e] * Read(x, rows[e] * stride + i);
    out[i] = sum;
  }
}

float ExpSum(size_t n, float shift, float* x) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    x[i] = Exp(x[i] - shift);
    sum += double{x[i]};
  }
  return static_cast<float>(sum);
}

void ScaleAdd(size_t n, float a, float* x, float* sum) {
  for (size_t i = 0; i < n; ++i) {
    x[i] *= a;
    sum[i] += x[i];
  }
}

size_t Sparsify(size_t n, float a, const float* x, float b, const float* z, float threshold,
                uint32_t noise, const uint32_t* noises, float* sum, uint32_t* index, float* value) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    sum[i] += a * x[i];
    const float y = a * x[i] - b * z[i];
    const float uniform = static_cast<float>((noise + noises[i]) >> 8) * 0x1p-24f;
    if (!(std::abs(y) > threshold * uniform)) continue;
    index[count] = static_cast<uint32_t>(i);
    value[count++] = std::copysign(std::max(std::abs(y), threshold), y);
  }
  return count;
}

void Adam(size_t n, const AdamStep& step, const float* g, float* w, float* m, float* v) {
  for (size_t i = 0; i < n; ++i) {
    m[i] = step.beta1 * m[i] + (1.0f - step.beta1) * g[i];
    v[i] = step.beta2 * v[i] + (1.0f - step.beta2) * g[i] * g[i];
    w[i] -= step.step_size * m[i] / (std::sqrt(v[i]) + step.epsilon);
  }
}

template <typename Moment>
void AdamOf(size_t n, const AdamStep& step, const float* g, uint16_t* w, Moment* m, Moment* v,
            uint32_t noise) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = RoundingNoise(noise, static_cast<uint32_t>(2 * i));
    const float mi = step.beta1 * Read(m, i) + (1.0f - step.beta1) * g[i];
    const float vi = step.beta2 * Read(v, i) + (1.0f - step.beta2) * g[i] * g[i];
    const float wi = Read(w, i) - step.step_size * mi / (std::sqrt(vi) + step.epsilon);
    Write(wi, bits, w, i);
    Write(mi, bits >> 16, m, i);
    Write(vi, RoundingNoise(noise, static_cast<uint32_t>(2 * i + 1)), v, i);
  }
}

void AxpyBf16(size_t n, float a, const float* x, uint16_t* y, uint32_t noise) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = RoundingNoise(noise, static_cast<uint32_t>(2 * i));
    Write(Read(y, i) + a * x[i], bits, y, i);
  }
}

uint16_t ToBf16(float x) {
  constexpr uint32_t kQuiet = 0x0040;  // keeps a NaN a NaN when its low payload bits are cut off
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | kQuiet);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void ToBf16(size_t n, const float* x, uint16_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = ToBf16(x[i]);
}

void FromBf16(size_t n, const uint16_t* x, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = Read(x, i);
}

float MaxAbs(size_t n, const float* x) {
  constexpr uint32_t kMagnitude = 0x7fffffff;
  uint32_t best = 0;
  for (size_t i = 0; i < n; ++i) best = std::max(best, std::bit_cast<uint32_t>(x[i]) & kMagnitude);
  return std::bit_cast<float>(best);
}

// t rounded to nearest even, clamped to int8's symmetric range.
int32_t ToQuanta(float t) {
  constexpr float kLimit = 127.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  constexpr int32_t kRoundBits = 0x4b400000;
  t = t < kLimit ? t : kLimit;
  t = t > -kLimit ? t : -kLimit;
  return std::bit_cast<int32_t>(t + kRound) - kRoundBits;
}

void ToInt8(size_t n, const float* x, float inverse, int8_t* y) {
  for (size_t i = 0; i < n; ++i) {
    const int32_t q = ToQuanta(x[i] * inverse);
    y[i] = static_cast<int8_t>(q == 0 ? (x[i] > 0.0f) - (x[i] < 0.0f) : q);
  }
}

void ToInt8Carry(size_t n, const float* x, float scale, float inverse, float* carry, int8_t* y) {
  for (size_t i = 0; i < n; ++i) {
    const float wanted = x[i] + carry[i];
    const int32_t q = ToQuanta(wanted * inverse);
    const float left = wanted - static_cast<float>(q) * scale;
    const bool sent = x[i] != 0.0f;
    y[i] = static_cast<int8_t>(sent ? q : 0);
    carry[i] = sent ? left : carry[i];
  }
}

void FromInt8(size_t n, const int8_t* x, float scale, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]) * scale;
}

void Transpose16(size_t count, size_t dim, const float* x, size_t stride, float* block) {
  constexpr size_t kVectors = 16;
  for (size_t d = 0; d < dim; ++d) {
    for (size_t i = 0; i < kVectors; ++i) {
      block[d * kVectors + i] = i < count ? x[i * stride + d] : 0.0f;
    }
  }
}

void Store(float x, float* y) { *y = x; }
void Store(float x, uint16_t* y) { *y = ToBf16(x); }
void Store(uint8_t x, uint8_t* y) { *y = x; }

template <typename X, typename Y>
size_t PackNonzero(size_t n, const X* x, uint8_t* bitmap, Y* packed) {
  size_t count = 0;
  std::fill_n(bitmap, (n + 7) / 8, uint8_t{0});
  for (size_t i = 0; i < n; ++i) {
    if (x[i] == X{}) continue;
    bitmap[i / 8] = static_cast<uint8_t>(bitmap[i / 8] | 1u << i % 8);
    Store(x[i], packed + count++);
  }
  return count;
}

template <typename At>
size_t SpreadNonzero(size_t n, const uint8_t* bitmap, size_t first, const At& at, float* out) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool there = (bitmap[(first + i) / 8] >> (first + i) % 8 & 1) != 0;
    out[i] = there ? at(count++) : 0.0f;
  }
  return count;
}

template <typename X>
size_t UnpackNonzero(size_t n, const uint8_t* bitmap, size_t first, const X* packed, size_t,
                     float* out) {
  return SpreadNonzero(
      n, bitmap, first, [&](size_t e) { return Read(packed, e); }, out);
}

size_t UnpackNonzero(size_t n, const uint8_t* bitmap, size_t first, const int8_t* packed, size_t,
                     float scale, float* out) {
  const auto at = [&](size_t e) { return static_cast<float>(packed[e]) * scale; };
  return SpreadNonzero(n, bitmap, first, at, out);
}

void Wta16(size_t hashes, size_t bin, const uint16_t* coordinates, const float* block,
           uint8_t* codes) {
  constexpr size_t kVectors = 16;
  for (size_t t = 0; t < hashes; ++t) {
    for (size_t lane = 0; lane < kVectors; ++lane) {
      float best = -kInfinity;
      uint8_t code = 0xff;
      for (size_t j = 0; j < bin; ++j) {
        const float value = block[size_t{coordinates[t * bin + j]} * kVectors + lane];
        if (value == 0.0f || !(value > best)) continue;
        best = value;
        code = static_cast<uint8_t>(j);
      }
      codes[t * kVectors + lane] = code;
    }
  }
}

}  // namespace
}  // namespace dslide

#include "common/math/kernels_table_inl.h"

namespace dslide {

constinit const Kernels kScalarKernels = MakeKernels("scalar", GemmNt, GemmNn, GemmTn);

}  // namespace dslide
