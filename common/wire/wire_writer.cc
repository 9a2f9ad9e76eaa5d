#include "common/wire/wire_writer.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/wire/wire_arrays.h"

namespace dslide {
namespace {

// What a vector costs besides its elements: length, offset, and up to 4 bytes of padding.
constexpr size_t kVectorHeaderBytes = 12;

}  // namespace

wire::Precision ToWire(WirePrecision precision) {
  if (precision == WirePrecision::kInt8) return wire::Precision::Int8;
  return precision == WirePrecision::kFp32 ? wire::Precision::Fp32 : wire::Precision::Bf16;
}

auto WireWriter::Strings(const std::vector<std::string>& strings)
    -> VectorOffset<Offset<flatbuffers::String>> {
  std::vector<Offset<flatbuffers::String>> offsets;
  for (const std::string& s : strings) offsets.push_back(b_.CreateString(s));
  return Vector(offsets);
}

auto WireWriter::OnceIfEqual(const std::vector<uint32_t>& v) -> VectorOffset<uint32_t> {
  if (v.empty()) return {};
  const bool equal = std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
  return b_.CreateVector(v.data(), equal ? 1 : v.size());
}

auto WireWriter::ExpSums(const std::vector<ExpSum>& sums)
    -> Offset<flatbuffers::Vector<const wire::ExpSum*>> {
  if (sums.empty()) return {};
  std::vector<wire::ExpSum> structs;
  structs.reserve(sums.size());
  for (const ExpSum& sum : sums) structs.emplace_back(sum.high, sum.low, sum.place);
  return b_.CreateVectorOfStructs(structs);
}

auto WireWriter::Numbers(std::span<const uint32_t> numbers) -> VectorOffset<uint8_t> {
  return Vector(PackNumbers(numbers));
}

auto WireWriter::Lengths(const std::vector<uint32_t>& offsets) -> VectorOffset<uint8_t> {
  std::vector<uint32_t> lengths(offsets.size() - 1);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = offsets[i + 1] - offsets[i];
  return Numbers(lengths);
}

// Whether `nonzero` elements and a bitmap are smaller than all of them.
bool WireWriter::BitmapPays(size_t elements, size_t nonzero, size_t element_bytes) {
  return BitmapBytes(elements) + nonzero * element_bytes + kVectorHeaderBytes <
         elements * element_bytes;
}

// Not for int8.
auto WireWriter::Floats(std::span<const float> x) -> VectorOffset<uint8_t> {
  if (x.empty()) return {};
  uint8_t* bytes = nullptr;
  const VectorOffset<uint8_t> offset =
      b_.CreateUninitializedVector<uint8_t>(x.size() * WireFloatBytes(precision_), &bytes);
  PackFloats(x, precision_, bytes);
  return offset;
}

// Packs into scratch first: only then is it known whether that pays.
auto WireWriter::FloatElements(std::span<const float> x) -> Elements {
  const size_t element_bytes = WireFloatBytes(precision_);
  const auto scratch = std::make_unique_for_overwrite<uint8_t[]>(x.size() * element_bytes);
  const auto bits = std::make_unique_for_overwrite<uint8_t[]>(BitmapBytes(x.size()));
  const size_t nonzero = PackNonzero(x, precision_, bits.get(), scratch.get());
  if (!BitmapPays(x.size(), nonzero, element_bytes)) return {{}, Floats(x)};
  const auto bitmap = b_.CreateVector(bits.get(), BitmapBytes(x.size()));
  if (nonzero == 0) return {bitmap, {}};
  return {bitmap, b_.CreateVector(scratch.get(), nonzero * element_bytes)};
}

// The bitmap is of the bytes: elements that were rounded to 0 are left out too.
auto WireWriter::Int8Elements(const std::vector<uint8_t>& bytes) -> Elements {
  std::vector<uint8_t> packed(bytes.size());
  std::vector<uint8_t> bits(BitmapBytes(bytes.size()));
  packed.resize(PackNonzero(bytes, bits.data(), packed.data()));
  if (!BitmapPays(bytes.size(), packed.size(), sizeof(int8_t))) return {{}, Vector(bytes)};
  const auto bitmap = b_.CreateVector(bits);
  return {bitmap, Vector(packed)};
}

auto WireWriter::Int8Matrix(const Matrix& m, Rounding rounding) -> Offset<wire::Matrix> {
  std::vector<uint8_t> bytes(m.data.size());
  std::vector<float> scales(m.rows);
  std::vector<float> carry(rounding == Rounding::kErrorFeedback ? m.cols : 0);
  for (size_t i = 0; i < m.rows; ++i) {
    const std::span<const float> row(m.row(i), m.cols);
    uint8_t* out = bytes.data() + i * m.cols;
    scales[i] = carry.empty() ? PackInt8(row, out) : PackInt8(row, carry, out);
  }
  return Int8Matrix(m, bytes, scales);
}

auto WireWriter::Int8Matrix(const Matrix& m, const std::vector<uint8_t>& bytes,
                            const std::vector<float>& scales) -> Offset<wire::Matrix> {
  const Elements elements = Int8Elements(bytes);
  return wire::CreateMatrix(b_, m.rows, m.cols, wire::Precision::Int8, elements.bitmap,
                            elements.data, Vector(scales));
}

auto WireWriter::ParameterMatrix(const Matrix& m) -> Offset<wire::Matrix> {
  const bool too_narrow = precision_ == WirePrecision::kInt8;
  return WireWriter(b_, too_narrow ? WirePrecision::kBf16 : precision_)
      .DenseMatrix(m, Rounding::kNearest);
}

auto WireWriter::GradientRows(const LayerRows& rows, const BatchId& batch) -> Offset<wire::Matrix> {
  const Matrix& m = rows.values;
  if (precision_ != WirePrecision::kInt8) return DenseMatrix(m, Rounding::kNearest);
  DSLIDE_CHECK(m.data.size() == size_t{m.rows} * m.cols && m.rows == rows.ids.size());
  const uint64_t seed = SubSeed(SubSeed(batch.epoch, batch.unit), batch.index);
  std::vector<uint8_t> bytes(m.data.size());
  std::vector<float> scales(m.rows);
  for (uint32_t i = 0; i < m.rows; ++i) {
    const auto noise = static_cast<uint32_t>(SubSeed(seed, rows.ids[i]));
    scales[i] = PackInt8({m.row(i), m.cols}, noise, bytes.data() + size_t{i} * m.cols);
  }
  return Int8Matrix(m, bytes, scales);
}

auto WireWriter::DenseMatrix(const Matrix& m, Rounding rounding) -> Offset<wire::Matrix> {
  DSLIDE_CHECK(m.data.size() == size_t{m.rows} * m.cols);
  if (precision_ == WirePrecision::kInt8) return Int8Matrix(m, rounding);
  const Elements elements = FloatElements(m.data);
  return wire::CreateMatrix(b_, m.rows, m.cols, ToWire(precision_), elements.bitmap, elements.data);
}

auto WireWriter::BytesOf(std::span<const int64_t> x) -> VectorOffset<uint8_t> {
  if (x.empty()) return {};
  return b_.CreateVector(reinterpret_cast<const uint8_t*>(x.data()), x.size_bytes());
}

auto WireWriter::FixedElements(const std::vector<int64_t>& x) -> Elements {
  std::vector<int64_t> packed(x.size());
  std::vector<uint8_t> bits(BitmapBytes(x.size()));
  packed.resize(PackNonzero(x, bits.data(), packed.data()));
  if (!BitmapPays(x.size(), packed.size(), sizeof(int64_t))) return {{}, BytesOf(x)};
  const auto bitmap = b_.CreateVector(bits);
  return {bitmap, BytesOf(packed)};
}

auto WireWriter::DenseMatrix(const FixedMatrix& m) -> Offset<wire::Matrix> {
  DSLIDE_CHECK(m.data.size() == size_t{m.rows} * m.cols && m.in_range);
  const Elements elements = FixedElements(m.data);
  return wire::CreateMatrix(b_, m.rows, m.cols, wire::Precision::Fixed64, elements.bitmap,
                            elements.data);
}

// Bytes of the values, whose rows' scales go into `scales`.
auto WireWriter::Int8Values(const SparseRows& rows, VectorOffset<float>* scales)
    -> VectorOffset<uint8_t> {
  if (rows.values.empty()) return {};
  std::vector<uint8_t> bytes(rows.values.size());
  std::vector<float> of_row(rows.rows());
  for (size_t i = 0; i < of_row.size(); ++i) {
    of_row[i] = PackInt8(rows.Values(i), bytes.data() + rows.offsets[i]);
  }
  *scales = Vector(of_row);
  return Vector(bytes);
}

auto WireWriter::Rows(const SparseRows& rows) -> Offset<wire::SparseRows> {
  DSLIDE_CHECK(!rows.offsets.empty() && rows.offsets.back() == rows.ids.size());
  DSLIDE_CHECK(rows.values.empty() || rows.values.size() == rows.ids.size());
  if (rows.rows() == 0) return {};
  const auto lengths = Lengths(rows.offsets);
  const bool ascend = RowsAscend(rows.offsets, rows.ids);
  const auto ids = ascend ? VectorOffset<uint32_t>() : Vector(rows.ids);
  const auto gaps = ascend ? Vector(PackGaps(rows.offsets, rows.ids)) : VectorOffset<uint8_t>();
  VectorOffset<float> scales;
  const auto values =
      precision_ == WirePrecision::kInt8 ? Int8Values(rows, &scales) : Floats(rows.values);
  return wire::CreateSparseRows(b_, ids, ToWire(precision_), values, gaps, lengths, scales);
}

}  // namespace dslide
