// Builds messages with the generated builders, so that they can be wrong.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "common/wire/messages.h"
#include "protocol_generated.h"
#include "tests/support/floats.h"
#include "tests/support/results.h"

namespace dslide::testing {

using Builder = flatbuffers::FlatBufferBuilder;
using MatrixOffset = flatbuffers::Offset<wire::Matrix>;
using RowsOffset = flatbuffers::Offset<wire::SparseRows>;

// The message of one table; its type decides the union's.
template <typename Table>
Bytes Finish(Builder& b, flatbuffers::Offset<Table> body) {
  wire::FinishMessageBuffer(
      b, wire::CreateMessage(b, 1, 2, 3, 4, 5, wire::BodyTraits<Table>::enum_value, body.Union()));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

inline void ExpectRefused(const Bytes& bytes, std::initializer_list<std::string_view> words) {
  const std::string text = MessageOf(Decode(bytes), ErrorKind::kFailed);
  CHECK(text.starts_with("malformed "));
  for (const std::string_view word : words) {
    CAPTURE(text);
    CHECK(text.find(word) != std::string::npos);
  }
}

inline MatrixOffset GoodMatrix(Builder& b, uint32_t rows) {
  const std::vector<uint8_t> data(rows * 2 * sizeof(float));
  return wire::CreateMatrixDirect(b, rows, 2, wire::Precision::Fp32, nullptr, &data);
}

inline RowsOffset GoodRows(Builder& b, uint32_t rows) {
  const std::vector<uint8_t> lengths(rows, 1);
  const std::vector<uint32_t> ids(rows, 9);
  return wire::CreateSparseRowsDirect(b, &ids, wire::Precision::Fp32, nullptr, nullptr, &lengths);
}

}  // namespace dslide::testing
