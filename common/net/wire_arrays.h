// Float arrays as bytes on the wire: fp32 or bf16, and the packed form of a sparse matrix.
//
// Bytes are little-endian. Pointers into wire bytes are aligned to 4, as FlatBuffers aligns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/config/config.h"

namespace dslide {

// Bytes of one float: 4 or 2.
inline size_t WireFloatBytes(WirePrecision precision) {
  return precision == WirePrecision::kFp32 ? sizeof(float) : sizeof(uint16_t);
}

// Writes x.size() * WireFloatBytes(precision) bytes; bf16 rounds to nearest even.
void PackFloats(std::span<const float> x, WirePrecision precision, uint8_t* bytes);

// Reads out.size() * WireFloatBytes(precision) bytes.
void UnpackFloats(const uint8_t* bytes, WirePrecision precision, std::span<float> out);

bool AllFinite(std::span<const float> x);

// As AllFinite, but -infinity is allowed too.
bool AllFiniteOrMinusInfinity(std::span<const float> x);

// Bitmaps have bit i in byte i / 8, lowest first; bits past the last element are 0.
inline size_t BitmapBytes(size_t elements) { return (elements + 7) / 8; }
size_t CountNonzero(std::span<const float> x);
size_t PopCount(std::span<const uint8_t> bitmap);

// Whether no bit past the first `elements` is set. REQUIRES bitmap.size() == BitmapBytes(elements).
bool PaddingIsZero(std::span<const uint8_t> bitmap, size_t elements);

// Writes the bitmap of x (BitmapBytes(x.size()) bytes) and its non-zero elements, in order.
// `packed` has room for CountNonzero(x) + 1 floats: the last one is scratch.
void PackNonzero(std::span<const float> x, uint8_t* bitmap, float* packed);

// The inverse; other elements become 0. REQUIRES PopCount(bitmap) == packed.size(), padding zero.
void UnpackNonzero(std::span<const uint8_t> bitmap, std::span<const float> packed,
                   std::span<float> out);

// Ids that ascend within their rows (row i is [offsets[i], offsets[i+1])) as LEB128 gaps: 7 bits a
// byte, lowest first, the high bit set in all but the last byte of a gap. Features of a sample are
// some thousand apart, so two bytes instead of four.
bool RowsAscend(std::span<const uint32_t> offsets, std::span<const uint32_t> ids);
std::vector<uint8_t> PackGaps(std::span<const uint32_t> offsets, std::span<const uint32_t> ids);

// How many gaps end within `bytes`.
size_t CountGaps(std::span<const uint8_t> bytes);

// The inverse of PackGaps. False if a gap is longer than 5 bytes, an id would not fit 32 bits, or
// the last gap has no end. REQUIRES CountGaps(bytes) == ids.size() == offsets.back().
bool UnpackGaps(std::span<const uint8_t> bytes, std::span<const uint32_t> offsets,
                std::span<uint32_t> ids);

}  // namespace dslide
