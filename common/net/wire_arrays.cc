#include "common/net/wire_arrays.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "common/math/kernels.h"

namespace dslide {

static_assert(std::endian::native == std::endian::little, "float arrays are copied as they are");

namespace {

// Exponent bits: all set in infinities and NaNs only.
constexpr uint32_t kExponent = 0x7f800000;
constexpr uint32_t kMinusInfinity = 0xff800000;

}  // namespace

void PackFloats(std::span<const float> x, WirePrecision precision, uint8_t* bytes) {
  if (x.empty()) return;
  if (precision == WirePrecision::kFp32) {
    std::memcpy(bytes, x.data(), x.size_bytes());
  } else {
    BestKernels().to_bf16(x.size(), x.data(), reinterpret_cast<uint16_t*>(bytes));
  }
}

void UnpackFloats(const uint8_t* bytes, WirePrecision precision, std::span<float> out) {
  if (out.empty()) return;
  if (precision == WirePrecision::kFp32) {
    std::memcpy(out.data(), bytes, out.size_bytes());
  } else {
    BestKernels().from_bf16(out.size(), reinterpret_cast<const uint16_t*>(bytes), out.data());
  }
}

// The loops below have no early exit so that they vectorise: good data is the usual case.
bool AllFinite(std::span<const float> x) {
  bool finite = true;
  for (const float value : x) {
    finite &= (std::bit_cast<uint32_t>(value) & kExponent) != kExponent;
  }
  return finite;
}

bool AllFiniteOrMinusInfinity(std::span<const float> x) {
  bool good = true;
  for (const float value : x) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    good &= (bits & kExponent) != kExponent || bits == kMinusInfinity;
  }
  return good;
}

size_t CountNonzero(std::span<const float> x) {
  size_t count = 0;
  for (const float value : x) count += value != 0.0f;
  return count;
}

size_t PopCount(std::span<const uint8_t> bitmap) {
  size_t count = 0;
  for (const uint8_t byte : bitmap) count += static_cast<size_t>(std::popcount(byte));
  return count;
}

bool PaddingIsZero(std::span<const uint8_t> bitmap, size_t elements) {
  return elements % 8 == 0 || bitmap.back() >> (elements % 8) == 0;
}

void PackNonzero(std::span<const float> x, uint8_t* bitmap, float* packed) {
  for (size_t begin = 0; begin < x.size(); begin += 8) {
    const size_t end = std::min(begin + 8, x.size());
    uint32_t byte = 0;
    for (size_t i = begin; i < end; ++i) {
      const uint32_t bit = x[i] != 0.0f;
      byte |= bit << (i - begin);
      *packed = x[i];  // written over by the next element if this one is 0: no branch to mispredict
      packed += bit;
    }
    *bitmap++ = static_cast<uint8_t>(byte);
  }
}

void UnpackNonzero(std::span<const uint8_t> bitmap, std::span<const float> packed,
                   std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  const float* next = packed.data();
  for (size_t b = 0; b < bitmap.size(); ++b) {
    for (uint32_t byte = bitmap[b]; byte != 0; byte &= byte - 1) {
      out[b * 8 + static_cast<size_t>(std::countr_zero(byte))] = *next++;
    }
  }
}

bool RowsAscend(std::span<const uint32_t> offsets, std::span<const uint32_t> ids) {
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto row = ids.subspan(offsets[i], offsets[i + 1] - offsets[i]);
    if (!std::is_sorted(row.begin(), row.end())) return false;
  }
  return true;
}

std::vector<uint8_t> PackGaps(std::span<const uint32_t> offsets, std::span<const uint32_t> ids) {
  std::vector<uint8_t> bytes;
  bytes.reserve(2 * ids.size());
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    uint32_t before = 0;
    for (uint32_t e = offsets[i]; e < offsets[i + 1]; ++e) {
      uint32_t gap = ids[e] - std::exchange(before, ids[e]);
      for (; gap >= 0x80; gap >>= 7) bytes.push_back(static_cast<uint8_t>(gap | 0x80));
      bytes.push_back(static_cast<uint8_t>(gap));
    }
  }
  return bytes;
}

size_t CountGaps(std::span<const uint8_t> bytes) {
  return static_cast<size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte < 0x80; }));
}

bool UnpackGaps(std::span<const uint8_t> bytes, std::span<const uint32_t> offsets,
                std::span<uint32_t> ids) {
  constexpr uint64_t kLargest = std::numeric_limits<uint32_t>::max();
  constexpr int kLastShift = 28;
  if (!bytes.empty() && bytes.back() >= 0x80) return false;
  const uint8_t* next = bytes.data();
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    uint64_t id = 0;
    for (uint32_t e = offsets[i]; e < offsets[i + 1]; ++e) {
      for (int shift = 0;; shift += 7) {
        if (shift > kLastShift) return false;
        id += uint64_t{*next & 0x7fu} << shift;
        if (*next++ < 0x80) break;
      }
      if (id > kLargest) return false;
      ids[e] = static_cast<uint32_t>(id);
    }
  }
  return true;
}

}  // namespace dslide
