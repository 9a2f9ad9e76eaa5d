// The fields of a FlatBuffer from what they hold: strings, vectors, matrices, sparse rows. The
// inverse of WireReader.
//
// Writes one message into the builder. What is empty is left out: its offset is null.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "protocol_generated.h"

namespace dslide {

wire::Precision ToWire(WirePrecision precision);

// How a matrix is rounded to int8 (wire_arrays.h). Gradients end up in sums over samples.
enum class Rounding { kNearest, kErrorFeedback };

class WireWriter {
 public:
  using Builder = flatbuffers::FlatBufferBuilder;
  template <typename T>
  using Offset = flatbuffers::Offset<T>;
  template <typename T>
  using VectorOffset = Offset<flatbuffers::Vector<T>>;

  // Matrices and sparse values are written in `precision`. The builder outlives the writer.
  WireWriter(Builder& builder, WirePrecision precision) : b_(builder), precision_(precision) {}

  Builder& builder() { return b_; }

  Offset<flatbuffers::String> String(const std::string& s) {
    return s.empty() ? Offset<flatbuffers::String>() : b_.CreateString(s);
  }
  VectorOffset<Offset<flatbuffers::String>> Strings(const std::vector<std::string>& strings);

  // Scalars as they are, or offsets of tables.
  template <typename T>
  VectorOffset<T> Vector(const std::vector<T>& v) {
    return v.empty() ? VectorOffset<T>() : b_.CreateVector(v);
  }
  // One entry if all are the same.
  VectorOffset<uint32_t> OnceIfEqual(const std::vector<uint32_t>& v);
  Offset<flatbuffers::Vector<const wire::ExpSum*>> ExpSums(const std::vector<ExpSum>& sums);
  // In LEB128.
  VectorOffset<uint8_t> Numbers(std::span<const uint32_t> numbers);
  // Of the rows that begin at `offsets`, in LEB128.
  VectorOffset<uint8_t> Lengths(const std::vector<uint32_t>& offsets);

  // REQUIRE consistent shapes (checked).
  Offset<wire::Matrix> DenseMatrix(const Matrix& m, Rounding rounding);
  // As it is, whatever the precision.
  Offset<wire::Matrix> DenseMatrix(const FixedMatrix& m);
  // In bf16 where others are in int8.
  Offset<wire::Matrix> ParameterMatrix(const Matrix& m);
  // In int8 each element is rounded up or down at random, by batch, row and column, so that its
  // mean is exact.
  Offset<wire::Matrix> GradientRows(const LayerRows& rows, const BatchId& batch);
  Offset<wire::SparseRows> Rows(const SparseRows& rows);

 private:
  // The elements of a matrix, without those that are 0 if there is a bitmap.
  struct Elements {
    VectorOffset<uint8_t> bitmap;
    VectorOffset<uint8_t> data;
  };

  static bool BitmapPays(size_t elements, size_t nonzero, size_t element_bytes);
  VectorOffset<uint8_t> Floats(std::span<const float> x);
  Elements FloatElements(std::span<const float> x);
  Elements Int8Elements(const std::vector<uint8_t>& bytes);
  VectorOffset<uint8_t> BytesOf(std::span<const int64_t> x);
  Elements FixedElements(const std::vector<int64_t>& x);
  Offset<wire::Matrix> Int8Matrix(const Matrix& m, Rounding rounding);
  Offset<wire::Matrix> Int8Matrix(const Matrix& m, const std::vector<uint8_t>& bytes,
                                  const std::vector<float>& scales);
  VectorOffset<uint8_t> Int8Values(const SparseRows& rows, VectorOffset<float>* scales);

  Builder& b_;
  const WirePrecision precision_;
};

}  // namespace dslide
