// The packing of matrices that are full of zeros: a bitmap, and the other elements side by side. A
// part of kernels_inl.h, which has what it is made of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

// kLanes elements to be packed, in 32 bits each, or the first n with zeros behind them.
IntVec LoadToPack(const float* x) { return reinterpret_cast<IntVec>(Load(x)); }
IntVec LoadToPack(const uint8_t* x) { return LoadBytes(x); }
IntVec LoadFirstToPack(size_t n, const float* x) {
  return reinterpret_cast<IntVec>(LoadFirst(n, x));
}
IntVec LoadFirstToPack(size_t n, const uint8_t* x) { return LoadFirstBytes(n, x); }

// Bit i: element i is not 0.
uint32_t NonzeroBits(IntVec x, const float*) { return SignBits(reinterpret_cast<Vec>(x) != 0.0f); }
uint32_t NonzeroBits(IntVec x, const uint8_t*) { return SignBits(x != 0); }

// Stores all lanes as elements.
void StorePacked(IntVec x, float* packed) { Store(reinterpret_cast<Vec>(x), packed); }
void StorePacked(IntVec x, uint16_t* packed) {
  const HalfVec half = ToBf16(reinterpret_cast<Vec>(x));
  __builtin_memcpy(packed, &half, sizeof(half));
}
void StorePacked(IntVec x, uint8_t* packed) { StoreBytes(x, packed); }

template <typename X, typename Y>
size_t PackNonzero(size_t n, const X* x, uint8_t* bitmap, Y* packed) {
  size_t count = 0;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const IntVec elements = LoadToPack(x + i);
    const uint32_t nonzero = NonzeroBits(elements, x);
    __builtin_memcpy(bitmap + i / 8, &nonzero, kLanes / 8);
    StorePacked(Compress(nonzero, elements), packed + count);
    count += static_cast<size_t>(__builtin_popcount(nonzero));
  }
  if (i < n) {
    const IntVec elements = LoadFirstToPack(n - i, x + i);
    const uint32_t nonzero = NonzeroBits(elements, x);
    __builtin_memcpy(bitmap + i / 8, &nonzero, (n - i + 7) / 8);
    Y rest[kLanes];
    StorePacked(Compress(nonzero, elements), rest);
    const auto left = static_cast<size_t>(__builtin_popcount(nonzero));
    __builtin_memcpy(packed + count, rest, left * sizeof(Y));
    count += left;
  }
  return count;
}

// Bits [first, first + n) of the bitmap, n <= kLanes; reads no byte without one of them.
uint32_t BitsAt(const uint8_t* bitmap, size_t first, size_t n) {
  const uint8_t* bytes = bitmap + first / 8;
  uint32_t bits = 0;
  if (first % 8 == 0 && n == kLanes) {
    __builtin_memcpy(&bits, bytes, kLanes / 8);
    return bits;
  }
  for (size_t b = 0; b < (first % 8 + n + 7) / 8; ++b) {
    bits |= static_cast<uint32_t>(bytes[b]) << (8 * b);
  }
  return (bits >> first % 8) & ((1u << n) - 1);
}

// kLanes packed elements in 32 bits each.
IntVec LoadPacked(const float* packed) { return reinterpret_cast<IntVec>(Load(packed)); }
IntVec LoadPacked(const uint16_t* packed) {
  HalfVec half;
  __builtin_memcpy(&half, packed, sizeof(half));
  return Widen(half);
}
IntVec LoadPacked(const int8_t* packed) { return LoadBytes(packed); }

// `value` makes floats of them.
template <typename X, typename Value>
size_t SpreadNonzero(size_t n, const uint8_t* bitmap, size_t first, const X* packed, size_t left,
                     const Value& value, float* out) {
  size_t count = 0;
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t lanes = n - i < kLanes ? n - i : kLanes;
    const uint32_t bits = BitsAt(bitmap, first + i, lanes);
    const auto set = static_cast<size_t>(__builtin_popcount(bits));
    IntVec elements;
    if (left - count >= kLanes) {
      elements = LoadPacked(packed + count);
    } else {
      X rest[kLanes] = {};
      if (set > 0)
        __builtin_memcpy(rest, packed + count, set * sizeof(X));  // null without elements
      elements = LoadPacked(rest);
    }
    const Vec y = value(Expand(bits, elements));
    if (lanes == kLanes) {
      Store(y, out + i);
    } else {
      StoreFirst(lanes, y, out + i);
    }
    count += set;
  }
  return count;
}

size_t UnpackNonzero(size_t n, const uint8_t* bitmap, size_t first, const float* packed,
                     size_t left, float* out) {
  const auto value = [](IntVec x) { return reinterpret_cast<Vec>(x); };
  return SpreadNonzero(n, bitmap, first, packed, left, value, out);
}

size_t UnpackNonzero(size_t n, const uint8_t* bitmap, size_t first, const uint16_t* packed,
                     size_t left, float* out) {
  const auto value = [](IntVec x) { return reinterpret_cast<Vec>(x << 16); };
  return SpreadNonzero(n, bitmap, first, packed, left, value, out);
}

size_t UnpackNonzero(size_t n, const uint8_t* bitmap, size_t first, const int8_t* packed,
                     size_t left, float scale, float* out) {
  const auto value = [scale](IntVec x) { return FromInt8(x, scale); };
  return SpreadNonzero(n, bitmap, first, packed, left, value, out);
}

}  // namespace
}  // namespace dslide
