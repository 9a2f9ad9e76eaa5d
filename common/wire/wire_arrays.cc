#include "common/wire/wire_arrays.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

constexpr uint64_t kLargestNumber = std::numeric_limits<uint32_t>::max();

void AppendNumber(uint32_t number, std::vector<uint8_t>* bytes) {
  for (; number >= 0x80; number >>= 7) bytes->push_back(static_cast<uint8_t>(number | 0x80));
  bytes->push_back(static_cast<uint8_t>(number));
}

// Reads up to 5 bytes of a number, 35 bits. False if it does not end there.
bool TakeNumber(const uint8_t** next, uint64_t* number) {
  constexpr int kLastShift = 28;
  *number = 0;
  for (int shift = 0; shift <= kLastShift; shift += 7) {
    const uint8_t byte = *(*next)++;
    *number += uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

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

float Int8Scale(float max_abs) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kSmallestScale = std::numeric_limits<float>::min();
  constexpr uint32_t kDropped = 0xff;  // of 24 significant bits
  if (max_abs == 0.0f) return 0.0f;
  if (!(max_abs <= kLargest)) return max_abs;
  const float scale = std::clamp(max_abs / 127.0f, kSmallestScale, kMaxInt8Scale);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(scale) + kDropped) & ~kDropped);
}

float PackInt8(std::span<const float> x, uint8_t* bytes) {
  const float scale = Int8Scale(BestKernels().max_abs(x.size(), x.data()));
  if (scale == 0.0f) {
    std::fill_n(bytes, x.size(), uint8_t{0});
  } else {
    BestKernels().to_int8(x.size(), x.data(), 1.0f / scale, reinterpret_cast<int8_t*>(bytes));
  }
  return scale;
}

float PackInt8(std::span<const float> x, std::span<float> carry, uint8_t* bytes) {
  const float scale = Int8Scale(BestKernels().max_abs(x.size(), x.data()));
  if (scale == 0.0f) {
    std::fill_n(bytes, x.size(), uint8_t{0});
  } else {
    BestKernels().to_int8_carry(x.size(), x.data(), scale, 1.0f / scale, carry.data(),
                                reinterpret_cast<int8_t*>(bytes));
  }
  return scale;
}

float PackInt8(std::span<const float> x, uint32_t noise, uint8_t* bytes) {
  constexpr float kMost = 127;
  const float scale = Int8Scale(BestKernels().max_abs(x.size(), x.data()));
  if (scale == 0.0f || !(scale <= kMaxInt8Scale)) {  // not finite: the receiver refuses the scale
    std::fill_n(bytes, x.size(), uint8_t{0});
    return scale;
  }
  const float inverse = 1.0f / scale;
  for (size_t i = 0; i < x.size(); ++i) {
    // 24 bits: the sum of a number in [0, 1) and one of up to 127 stays below 128.
    const auto up = static_cast<float>(RoundingNoise(noise, static_cast<uint32_t>(i)) >> 8);
    const float rounded = std::floor(x[i] * inverse + up * 0x1p-24f);
    bytes[i] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(rounded, -kMost, kMost)));
  }
  return scale;
}

void UnpackInt8(const uint8_t* bytes, float scale, std::span<float> out) {
  BestKernels().from_int8(out.size(), reinterpret_cast<const int8_t*>(bytes), scale, out.data());
}

bool AreInt8Scales(std::span<const float> scales) {
  bool good = true;
  for (const float scale : scales) good &= scale >= 0.0f && scale <= kMaxInt8Scale;
  return good;
}

bool AllFinite(std::span<const float> x) {
  return BestKernels().max_abs(x.size(), x.data()) <= std::numeric_limits<float>::max();
}

// No early exit, so that it vectorises: good data is the usual case.
bool AllFiniteOrMinusInfinity(std::span<const float> x) {
  bool good = true;
  for (const float value : x) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    good &= (bits & kExponent) != kExponent || bits == kMinusInfinity;
  }
  return good;
}

size_t PopCount(std::span<const uint8_t> bitmap) {
  size_t count = 0;
  while (!bitmap.empty()) {
    uint64_t word = 0;
    const size_t bytes = std::min(bitmap.size(), sizeof(word));
    std::memcpy(&word, bitmap.data(), bytes);
    count += static_cast<size_t>(std::popcount(word));
    bitmap = bitmap.subspan(bytes);
  }
  return count;
}

bool PaddingIsZero(std::span<const uint8_t> bitmap, size_t elements) {
  return elements % 8 == 0 || bitmap.back() >> (elements % 8) == 0;
}

size_t PackNonzero(std::span<const float> x, WirePrecision precision, uint8_t* bitmap,
                   uint8_t* packed) {
  const Kernels& kernels = BestKernels();
  if (precision == WirePrecision::kFp32) {
    return kernels.pack_nonzero(x.size(), x.data(), bitmap, reinterpret_cast<float*>(packed));
  }
  return kernels.pack_nonzero_bf16(x.size(), x.data(), bitmap, reinterpret_cast<uint16_t*>(packed));
}

size_t PackNonzero(std::span<const uint8_t> x, uint8_t* bitmap, uint8_t* packed) {
  return BestKernels().pack_nonzero_bytes(x.size(), x.data(), bitmap, packed);
}

size_t PackNonzero(std::span<const int64_t> x, uint8_t* bitmap, int64_t* packed) {
  size_t count = 0;
  for (size_t begin = 0; begin < x.size(); begin += 8) {
    const size_t end = std::min(begin + 8, x.size());
    uint32_t byte = 0;
    for (size_t i = begin; i < end; ++i) {
      const uint32_t bit = x[i] != 0;
      byte |= bit << (i - begin);
      packed[count] = x[i];  // written over if it is 0: no branch to mispredict
      count += bit;
    }
    *bitmap++ = static_cast<uint8_t>(byte);
  }
  return count;
}

void UnpackNonzero(std::span<const uint8_t> bitmap, std::span<const uint8_t> packed,
                   WirePrecision precision, std::span<float> out) {
  const Kernels& kernels = BestKernels();
  const size_t count = packed.size() / WireFloatBytes(precision);
  if (precision == WirePrecision::kFp32) {
    (void)kernels.unpack_nonzero(out.size(), bitmap.data(), 0,
                                 reinterpret_cast<const float*>(packed.data()), count, out.data());
  } else {
    (void)kernels.unpack_nonzero_bf16(out.size(), bitmap.data(), 0,
                                      reinterpret_cast<const uint16_t*>(packed.data()), count,
                                      out.data());
  }
}

void UnpackNonzeroInt8(std::span<const uint8_t> bitmap, std::span<const uint8_t> packed,
                       std::span<const float> scales, std::span<float> out) {
  if (scales.empty()) return;
  const size_t cols = out.size() / scales.size();
  for (size_t i = 0; i < scales.size(); ++i) {
    const size_t taken = BestKernels().unpack_nonzero_int8(
        cols, bitmap.data(), i * cols, reinterpret_cast<const int8_t*>(packed.data()),
        packed.size(), scales[i], out.data() + i * cols);
    packed = packed.subspan(taken);
  }
}

void UnpackNonzero(std::span<const uint8_t> bitmap, std::span<const int64_t> packed,
                   std::span<int64_t> out) {
  std::fill(out.begin(), out.end(), 0);
  const int64_t* next = packed.data();
  for (size_t b = 0; b < bitmap.size(); ++b) {
    for (uint32_t byte = bitmap[b]; byte != 0; byte &= byte - 1) {
      out[b * 8 + static_cast<size_t>(std::countr_zero(byte))] = *next++;
    }
  }
}

std::vector<uint8_t> PackNumbers(std::span<const uint32_t> numbers) {
  std::vector<uint8_t> bytes;
  bytes.reserve(numbers.size());
  for (const uint32_t number : numbers) AppendNumber(number, &bytes);
  return bytes;
}

size_t CountNumbers(std::span<const uint8_t> bytes) {
  return static_cast<size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte < 0x80; }));
}

bool UnpackNumbers(std::span<const uint8_t> bytes, std::span<uint32_t> numbers) {
  if (!bytes.empty() && bytes.back() >= 0x80) return false;
  const uint8_t* next = bytes.data();
  for (uint32_t& number : numbers) {
    uint64_t value;
    if (!TakeNumber(&next, &value) || value > kLargestNumber) return false;
    number = static_cast<uint32_t>(value);
  }
  return true;
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
      AppendNumber(ids[e] - std::exchange(before, ids[e]), &bytes);
    }
  }
  return bytes;
}

bool UnpackGaps(std::span<const uint8_t> bytes, std::span<const uint32_t> offsets,
                std::span<uint32_t> ids) {
  if (!bytes.empty() && bytes.back() >= 0x80) return false;
  const uint8_t* next = bytes.data();
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    uint64_t id = 0;
    for (uint32_t e = offsets[i]; e < offsets[i + 1]; ++e) {
      uint64_t gap;
      if (!TakeNumber(&next, &gap)) return false;
      id += gap;
      if (id > kLargestNumber) return false;
      ids[e] = static_cast<uint32_t>(id);
    }
  }
  return true;
}

}  // namespace dslide
