// The vectorised kernels, over the vector that the including file defines: Vec, IntVec, HalfVec,
// kLanes, EstimateReciprocal, EstimateReciprocalSqrt, SignBits, LoadFirst, StoreFirst, Widen,
// LoadBytes, StoreBytes, Compress and Expand. Included by kernels_avx2.cc and kernels_avx512.cc
// only.
//
// Everything is in an anonymous namespace and nothing of the standard library is instantiated: the
// linker must not find, under a common name, code that is compiled for more than the baseline.
#pragma once

#include "common/math/gemm_inl.h"
#include "common/math/kernels_internal.h"
#include "common/math/vector_inl.h"

namespace dslide {
namespace {

using UintVec = uint32_t __attribute__((vector_size(kLanes * 4)));
using ByteVec = uint8_t __attribute__((vector_size(kLanes)));

constexpr float kInfinity = __builtin_inff();
constexpr size_t kUnroll = 4;  // independent sums, which hide the latency of an FMA

HalfVec ToBf16(Vec x) {
  const UintVec bits = reinterpret_cast<UintVec>(x);
  const UintVec rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const UintVec quiet_nan = (bits >> 16) | 0x0040u;
  return __builtin_convertvector(x == x ? rounded : quiet_nan, HalfVec);
}

Vec FromBf16(HalfVec x) { return reinterpret_cast<Vec>(Widen(x) << 16); }

Vec Load(const uint16_t* x) {
  HalfVec half;
  __builtin_memcpy(&half, x, sizeof(half));
  return FromBf16(half);
}

Vec LoadFirst(size_t n, const uint16_t* x) {
  HalfVec half = {};
  __builtin_memcpy(&half, x, n * sizeof(uint16_t));
  return FromBf16(half);
}

// The same random bits as RoundingNoise() gives for elements 2 * i + odd, i = first, first + 1 ...
UintVec Noise(uint32_t noise, size_t first, uint32_t odd) {
  UintVec x;
  for (size_t lane = 0; lane < kLanes; ++lane) x[lane] = static_cast<uint32_t>(2 * lane);
  x = noise + (x + static_cast<uint32_t>(2 * first) + odd) * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Stores `value`; as bfloat16 rounded stochastically by the lower halves of `bits`.
void StoreRounded(Vec value, UintVec, float* x) { Store(value, x); }
void StoreRounded(Vec value, UintVec bits, uint16_t* x) {
  const UintVec sum = reinterpret_cast<UintVec>(value) + (bits & 0xffffu);
  const HalfVec half = __builtin_convertvector(sum >> 16, HalfVec);
  __builtin_memcpy(x, &half, sizeof(half));
}

float Sum(Vec x) {
  float total = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) total += x[lane];
  return total;
}

template <typename Y>
float Dot(size_t n, const float* x, const Y* y) {
  Vec sums[kUnroll] = {};
  size_t i = 0;
  for (; i + kUnroll * kLanes <= n; i += kUnroll * kLanes) {
    for (size_t u = 0; u < kUnroll; ++u) {
      sums[u] += Load(x + i + u * kLanes) * Load(y + i + u * kLanes);
    }
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] += Load(x + i) * Load(y + i);
  if (i < n) sums[1] += LoadFirst(n - i, x + i) * LoadFirst(n - i, y + i);
  return Sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void Axpy(size_t n, float a, const float* x, float* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(Load(y + i) + a * Load(x + i), y + i);
  if (i < n) StoreFirst(n - i, LoadFirst(n - i, y + i) + a * LoadFirst(n - i, x + i), y + i);
}

// A block of kVectors stays in registers over all rows.
template <size_t kVectors, typename X>
void WeightedSumBlock(size_t count, const uint32_t* rows, const float* weights, const X* x,
                      size_t stride, float* out) {
  Vec sums[kVectors] = {};
  for (size_t e = 0; e < count; ++e) {
    const X* row = x + rows[e] * stride;
    for (size_t u = 0; u < kVectors; ++u) sums[u] += weights[e] * Load(row + u * kLanes);
  }
  for (size_t u = 0; u < kVectors; ++u) Store(sums[u], out + u * kLanes);
}

template <typename X>
void WeightedSum(size_t n, size_t count, const uint32_t* rows, const float* weights, const X* x,
                 size_t stride, float* out) {
  constexpr size_t kBlock = 8;
  size_t i = 0;
  for (; i + kBlock * kLanes <= n; i += kBlock * kLanes) {
    WeightedSumBlock<kBlock>(count, rows, weights, x + i, stride, out + i);
  }
  for (; i + kLanes <= n; i += kLanes) {
    WeightedSumBlock<1>(count, rows, weights, x + i, stride, out + i);
  }
  if (i == n) return;
  Vec sum = {};
  for (size_t e = 0; e < count; ++e) {
    sum += weights[e] * LoadFirst(n - i, x + rows[e] * stride + i);
  }
  StoreFirst(n - i, sum, out + i);
}

Vec Max(Vec x, Vec y) { return x > y ? x : y; }

float Max(size_t n, const float* x) {
  Vec best[2] = {Splat(-kInfinity), Splat(-kInfinity)};
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    best[0] = Max(Load(x + i), best[0]);
    best[1] = Max(Load(x + i + kLanes), best[1]);
  }
  best[0] = Max(best[0], best[1]);
  float result = -kInfinity;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result = best[0][lane] > result ? best[0][lane] : result;
  }
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// exp(x) = 2^e * exp(r) with e = round(x / ln 2), |r| <= ln(2)/2. ln 2 is split in two so that
// e * kLn2High is exact; exp(r) is its Taylor polynomial of degree 7, whose remainder is 6e-9.
// Below kLowest, where the result would be denormal, 0; above kHighest its (finite) value there.
Vec Exp(Vec x) {
  constexpr float kLowest = -87.33f;
  constexpr float kHighest = 88.37f;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  constexpr int32_t kRoundBits = 0x4b400000;
  constexpr int32_t kBias = 127;

  const IntVec underflow = x < kLowest;
  x = x > kHighest ? Splat(kHighest) : x;
  x = underflow ? Splat(0.0f) : x;
  const Vec shifted = x * kLog2E + kRound;
  const Vec e = shifted - kRound;
  const Vec r = (x - e * kLn2High) - e * kLn2Low;
  Vec p = Splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntVec power = (reinterpret_cast<IntVec>(shifted) - kRoundBits + kBias) << 23;
  return underflow ? Splat(0.0f) : p * reinterpret_cast<Vec>(power);
}

float ExpSum(size_t n, float shift, float* x) {
  Vec sums[2] = {};
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    for (size_t u = 0; u < 2; ++u) {
      const Vec y = Exp(Load(x + i + u * kLanes) - shift);
      Store(y, x + i + u * kLanes);
      sums[u] += y;
    }
  }
  if (i + kLanes <= n) {
    const Vec y = Exp(Load(x + i) - shift);
    Store(y, x + i);
    sums[0] += y;
    i += kLanes;
  }
  float total = Sum(sums[0] + sums[1]);
  if (i < n) {
    const Vec tail = Exp(LoadFirst(n - i, x + i) - shift);
    StoreFirst(n - i, tail, x + i);
    for (size_t lane = 0; lane < n - i; ++lane) total += tail[lane];
  }
  return total;
}

void ScaleAdd(size_t n, float a, float* x, float* sum) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec y = a * Load(x + i);
    Store(y, x + i);
    Store(Load(sum + i) + y, sum + i);
  }
  if (i < n) {
    const Vec y = a * LoadFirst(n - i, x + i);
    StoreFirst(n - i, y, x + i);
    StoreFirst(n - i, LoadFirst(n - i, sum + i) + y, sum + i);
  }
}

// Few elements are appended, so they are stored one by one.
size_t Sparsify(size_t n, float a, const float* x, float b, const float* z, float threshold,
                uint32_t noise, const uint32_t* noises, float* sum, uint32_t* index, float* value) {
  size_t count = 0;
  IntVec lanes;
  for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = static_cast<int32_t>(lane);
  // Appends the lanes that are kept. What is stored beyond them is within the n
  // elements: no more than i have been appended before.
  const auto append = [&](size_t i, size_t width, Vec y, UintVec bits) {
    const Vec uniform = __builtin_convertvector((noise + bits) >> 8, Vec) * 0x1p-24f;
    const Vec size = y < 0.0f ? -y : y;
    const Vec rounded = size > threshold ? y : y < 0.0f ? Splat(-threshold) : Splat(threshold);
    const uint32_t kept = SignBits(size > threshold * uniform);
    const IntVec indices = Compress(kept, lanes + static_cast<int32_t>(i));
    const IntVec values = Compress(kept, reinterpret_cast<IntVec>(rounded));
    __builtin_memcpy(index + count, &indices, width * sizeof(uint32_t));
    __builtin_memcpy(value + count, &values, width * sizeof(float));
    count += static_cast<size_t>(__builtin_popcount(kept));
  };
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec term = a * Load(x + i);
    Store(Load(sum + i) + term, sum + i);
    UintVec bits;
    __builtin_memcpy(&bits, noises + i, sizeof(bits));
    append(i, kLanes, term - b * Load(z + i), bits);
  }
  if (i < n) {
    const Vec term = a * LoadFirst(n - i, x + i);
    StoreFirst(n - i, LoadFirst(n - i, sum + i) + term, sum + i);
    UintVec bits = {};
    __builtin_memcpy(&bits, noises + i, (n - i) * sizeof(uint32_t));
    append(i, n - i, term - b * LoadFirst(n - i, z + i),
           bits);  // lanes beyond n are 0, and not kept
  }
  return count;
}

// The CPU's estimates with one Newton step each: relative errors below 2^-22, at a fraction of the
// time of square root and division. REQUIRES x >= 0, and x > 0 and normal for Reciprocal.
Vec SquareRoot(Vec x) {
  // For 0 and infinity, whose products with their reciprocal square roots are NaN.
  constexpr float kTiny = 1e-36f;
  constexpr float kHuge = 3e38f;
  x = x > kTiny ? x : Splat(kTiny);
  x = x < kHuge ? x : Splat(kHuge);
  const Vec r = EstimateReciprocalSqrt(x);
  return x * r * (1.5f - 0.5f * x * r * r);
}

Vec Reciprocal(Vec x) {
  const Vec r = EstimateReciprocal(x);
  return r * (2.0f - x * r);
}

struct AdamState {
  Vec w;
  Vec m;
  Vec v;
};

AdamState AdamUpdate(const AdamStep& step, Vec g, AdamState s) {
  s.m = step.beta1 * s.m + (1.0f - step.beta1) * g;
  s.v = step.beta2 * s.v + (1.0f - step.beta2) * g * g;
  s.w -= step.step_size * s.m * Reciprocal(SquareRoot(s.v) + step.epsilon);
  return s;
}

// One whole vector of elements i ... of any storage.
template <typename Weight, typename Moment>
void AdamVector(const AdamStep& step, size_t i, const float* g, Weight* w, Moment* m, Moment* v,
                uint32_t noise) {
  const AdamState s = AdamUpdate(step, Load(g), {.w = Load(w), .m = Load(m), .v = Load(v)});
  const UintVec bits = Noise(noise, i, 0);
  StoreRounded(s.w, bits, w);
  StoreRounded(s.m, bits >> 16, m);
  StoreRounded(s.v, Noise(noise, i, 1), v);
}

template <typename Weight, typename Moment>
void AdamOf(size_t n, const AdamStep& step_in, const float* g, Weight* w, Moment* m, Moment* v,
            uint32_t noise) {
  const AdamStep step = step_in;  // a local copy cannot alias w, m or v
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) AdamVector(step, i, g + i, w + i, m + i, v + i, noise);
  if (i == n) return;
  float rest_g[kLanes] = {};
  Weight rest_w[kLanes] = {};
  Moment rest_m[kLanes] = {};
  Moment rest_v[kLanes] = {};
  for (size_t j = i; j < n; ++j) {
    rest_g[j - i] = g[j];
    rest_w[j - i] = w[j];
    rest_m[j - i] = m[j];
    rest_v[j - i] = v[j];
  }
  AdamVector(step, i, rest_g, rest_w, rest_m, rest_v, noise);
  for (size_t j = i; j < n; ++j) {
    w[j] = rest_w[j - i];
    m[j] = rest_m[j - i];
    v[j] = rest_v[j - i];
  }
}

void Adam(size_t n, const AdamStep& step, const float* g, float* w, float* m, float* v) {
  AdamOf(n, step, g, w, m, v, 0);
}

void AxpyBf16(size_t n, float a, const float* x, uint16_t* y, uint32_t noise) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    StoreRounded(Load(y + i) + a * Load(x + i), Noise(noise, i, 0), y + i);
  }
  if (i == n) return;
  uint16_t rest[kLanes];
  StoreRounded(LoadFirst(n - i, y + i) + a * LoadFirst(n - i, x + i), Noise(noise, i, 0), rest);
  __builtin_memcpy(y + i, rest, (n - i) * sizeof(uint16_t));
}

void ToBf16(size_t n, const float* x, uint16_t* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const HalfVec half = ToBf16(Load(x + i));
    __builtin_memcpy(y + i, &half, sizeof(half));
  }
  if (i < n) {
    const HalfVec half = ToBf16(LoadFirst(n - i, x + i));
    __builtin_memcpy(y + i, &half, (n - i) * sizeof(uint16_t));
  }
}

void FromBf16(size_t n, const uint16_t* x, float* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    HalfVec half;
    __builtin_memcpy(&half, x + i, sizeof(half));
    Store(FromBf16(half), y + i);
  }
  if (i < n) {
    HalfVec half = {};
    __builtin_memcpy(&half, x + i, (n - i) * sizeof(uint16_t));
    StoreFirst(n - i, FromBf16(half), y + i);
  }
}

float MaxAbs(size_t n, const float* x) {
  IntVec best = {};
  const auto take = [&best](Vec value) {
    const IntVec magnitude = reinterpret_cast<IntVec>(value) & 0x7fffffff;
    best = magnitude > best ? magnitude : best;
  };
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) take(Load(x + i));
  if (i < n) take(LoadFirst(n - i, x + i));
  int32_t result = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) result = best[lane] > result ? best[lane] : result;
  return __builtin_bit_cast(float, result);
}

// t rounded to nearest even, clamped to int8's symmetric range. The clamp also stands between the
// caller's product and the sum, which must not be fused.
IntVec ToQuanta(Vec t) {
  constexpr float kLimit = 127.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  constexpr int32_t kRoundBits = 0x4b400000;
  t = t < kLimit ? t : Splat(kLimit);
  t = t > -kLimit ? t : Splat(-kLimit);
  return reinterpret_cast<IntVec>(t + kRound) - kRoundBits;
}

// Less than kLanes elements, of one byte each.
template <typename Byte>
IntVec LoadFirstBytes(size_t n, const Byte* x) {
  Byte bytes[kLanes] = {};
  __builtin_memcpy(bytes, x, n);
  return LoadBytes(bytes);
}
void StoreFirstBytes(size_t n, IntVec lanes, void* x) {
  uint8_t bytes[kLanes];
  StoreBytes(lanes, bytes);
  __builtin_memcpy(x, bytes, n);
}

IntVec ToInt8(Vec x, float inverse) {
  const IntVec q = ToQuanta(x * inverse);
  const IntVec sign = (x < 0.0f) - (x > 0.0f);  // comparisons that hold are -1
  return q == 0 ? sign : q;
}

void ToInt8(size_t n, const float* x, float inverse, int8_t* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreBytes(ToInt8(Load(x + i), inverse), y + i);
  if (i < n) StoreFirstBytes(n - i, ToInt8(LoadFirst(n - i, x + i), inverse), y + i);
}

IntVec ToInt8Carry(Vec x, float scale, float inverse, Vec* carry) {
  const Vec wanted = x + *carry;
  const IntVec q = ToQuanta(wanted * inverse);
  const Vec left = wanted - __builtin_convertvector(q, Vec) * scale;
  const IntVec sent = x != 0.0f;
  *carry = sent ? left : *carry;
  return q & sent;
}

void ToInt8Carry(size_t n, const float* x, float scale, float inverse, float* carry, int8_t* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vec left = Load(carry + i);
    StoreBytes(ToInt8Carry(Load(x + i), scale, inverse, &left), y + i);
    Store(left, carry + i);
  }
  if (i < n) {
    Vec left = LoadFirst(n - i, carry + i);
    StoreFirstBytes(n - i, ToInt8Carry(LoadFirst(n - i, x + i), scale, inverse, &left), y + i);
    StoreFirst(n - i, left, carry + i);
  }
}

Vec FromInt8(IntVec x, float scale) { return __builtin_convertvector(x, Vec) * scale; }

void FromInt8(size_t n, const int8_t* x, float scale, float* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(FromInt8(LoadBytes(x + i), scale), y + i);
  if (i < n) StoreFirst(n - i, FromInt8(LoadFirstBytes(n - i, x + i), scale), y + i);
}

}  // namespace
}  // namespace dslide

#include "common/math/nonzero_inl.h"

namespace dslide {
namespace {

// The codes of kLanes of the 16 vectors: `block` and `codes` point at the first of them.
void WtaOfLanes(size_t bin, const uint16_t* coordinates, const float* block, uint8_t* codes) {
  constexpr size_t kVectors = 16;
  Vec best = Splat(-kInfinity);
  IntVec code = IntVec{} + 0xff;
  for (size_t j = 0; j < bin; ++j) {
    const Vec value = Load(block + size_t{coordinates[j]} * kVectors);
    const IntVec wins = (value != 0.0f) & (value > best);
    best = wins ? value : best;
    code = wins ? IntVec{} + static_cast<int32_t>(j) : code;
  }
  const ByteVec bytes = __builtin_convertvector(code, ByteVec);
  __builtin_memcpy(codes, &bytes, sizeof(bytes));
}

void Wta16(size_t hashes, size_t bin, const uint16_t* coordinates, const float* block,
           uint8_t* codes) {
  constexpr size_t kVectors = 16;
  for (size_t t = 0; t < hashes; ++t) {
    for (size_t lane = 0; lane < kVectors; lane += kLanes) {
      WtaOfLanes(bin, coordinates + t * bin, block + lane, codes + t * kVectors + lane);
    }
  }
}

void Transpose16(size_t count, size_t dim, const float* x, size_t stride, float* block) {
  PackAlongDepth<16>(count, dim, {x, stride, true}, block);
}

}  // namespace
}  // namespace dslide

#include "common/math/kernels_table_inl.h"
