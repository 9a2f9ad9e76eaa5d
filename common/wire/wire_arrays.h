// Arrays as bytes on the wire: floats in fp32, bf16 or int8, the packed form of a sparse matrix,
// and whole numbers in LEB128.
//
// Bytes are little-endian. Pointers into wire bytes are aligned to 4, as FlatBuffers aligns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/config/config.h"

namespace dslide {

// Bytes of one float: 4, 2 or 1.
inline size_t WireFloatBytes(WirePrecision precision) {
  if (precision == WirePrecision::kInt8) return sizeof(int8_t);
  return precision == WirePrecision::kFp32 ? sizeof(float) : sizeof(uint16_t);
}

// Writes x.size() * WireFloatBytes(precision) bytes; bf16 rounds to nearest even. Not for int8.
void PackFloats(std::span<const float> x, WirePrecision precision, uint8_t* bytes);

// Reads out.size() * WireFloatBytes(precision) bytes. Not for int8.
void UnpackFloats(const uint8_t* bytes, WirePrecision precision, std::span<float> out);

// The scale of a row in int8 whose largest |x| is `max_abs`: max_abs / 127, rounded up to 16
// significant bits so that its multiples are exact floats. At least 2^-126 and at most
// kMaxInt8Scale; 0 for 0; `max_abs` itself if it is not finite, so that the receiver refuses it.
constexpr float kMaxInt8Scale = 0x1p120f;  // 128 times this is finite
float Int8Scale(float max_abs);

// Writes a row's x.size() bytes and returns its scale. Elements are rounded to nearest, but what is
// not 0 does not become 0.
float PackInt8(std::span<const float> x, uint8_t* bytes);

// The same with error feedback: carry[j] is added to x[j] before that is rounded, and what is then
// lost, by rounding or at the ends of the range, becomes carry[j] for the next row. Sums over rows
// so keep their accuracy (Seide et al.: "1-Bit Stochastic Gradient Descent", Interspeech 2014).
// Elements that are 0 stay 0 and leave the carry alone.
float PackInt8(std::span<const float> x, std::span<float> carry, uint8_t* bytes);

// The same, where each element is rounded up or down at random, with the probabilities that make
// its mean exact: sums over messages keep their accuracy, without anything that is carried from one
// to the next. By `noise` and the element's number alone.
float PackInt8(std::span<const float> x, uint32_t noise, uint8_t* bytes);

// The inverse.
void UnpackInt8(const uint8_t* bytes, float scale, std::span<float> out);

// Whether every scale is one that Int8Scale() gives: from 0 to kMaxInt8Scale.
bool AreInt8Scales(std::span<const float> scales);

bool AllFinite(std::span<const float> x);

// As AllFinite, but -infinity is allowed too.
bool AllFiniteOrMinusInfinity(std::span<const float> x);

// Bitmaps have bit i in byte i / 8, lowest first; bits past the last element are 0.
inline size_t BitmapBytes(size_t elements) { return (elements + 7) / 8; }
size_t PopCount(std::span<const uint8_t> bitmap);

// Whether no bit past the first `elements` is set. REQUIRES bitmap.size() == BitmapBytes(elements).
bool PaddingIsZero(std::span<const uint8_t> bitmap, size_t elements);

// Writes the bitmap of x (BitmapBytes(x.size()) bytes) and its non-zero elements, in order, in
// `precision`, which is not int8. Returns how many there are. `packed` has room for all elements of
// x; what is behind the non-zero ones is scratch.
size_t PackNonzero(std::span<const float> x, WirePrecision precision, uint8_t* bitmap,
                   uint8_t* packed);
// The same with elements as they are.
size_t PackNonzero(std::span<const uint8_t> x, uint8_t* bitmap, uint8_t* packed);
size_t PackNonzero(std::span<const int64_t> x, uint8_t* bitmap, int64_t* packed);

// The inverse; other elements become 0. REQUIRES PopCount(bitmap) packed elements, padding zero.
void UnpackNonzero(std::span<const uint8_t> bitmap, std::span<const uint8_t> packed,
                   WirePrecision precision, std::span<float> out);
// Of a matrix in int8, row-major, with a scale for each row. REQUIRES out.size() to be a multiple
// of scales.size().
void UnpackNonzeroInt8(std::span<const uint8_t> bitmap, std::span<const uint8_t> packed,
                       std::span<const float> scales, std::span<float> out);
void UnpackNonzero(std::span<const uint8_t> bitmap, std::span<const int64_t> packed,
                   std::span<int64_t> out);

// Whole numbers in LEB128: 7 bits a byte, lowest first, the high bit set in all but the last byte
// of a number.
std::vector<uint8_t> PackNumbers(std::span<const uint32_t> numbers);

// How many numbers end within `bytes`.
size_t CountNumbers(std::span<const uint8_t> bytes);

// The inverse of PackNumbers. False if one is longer than 5 bytes or above 2^32 - 1, or the last
// has no end. REQUIRES CountNumbers(bytes) == numbers.size().
bool UnpackNumbers(std::span<const uint8_t> bytes, std::span<uint32_t> numbers);

// Ids that ascend within their rows (row i is [offsets[i], offsets[i+1])) as LEB128 gaps.
// Features of a sample are some thousand apart, so two bytes instead of four.
bool RowsAscend(std::span<const uint32_t> offsets, std::span<const uint32_t> ids);
std::vector<uint8_t> PackGaps(std::span<const uint32_t> offsets, std::span<const uint32_t> ids);

// The inverse of PackGaps. False if a gap is longer than 5 bytes, an id would not fit 32 bits, or
// the last gap has no end. REQUIRES CountNumbers(bytes) == ids.size() == offsets.back().
bool UnpackGaps(std::span<const uint8_t> bytes, std::span<const uint32_t> offsets,
                std::span<uint32_t> ids);

}  // namespace dslide
