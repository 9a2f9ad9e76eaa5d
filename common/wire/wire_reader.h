// What the fields of a verified FlatBuffer hold: strings, vectors, matrices, sparse rows.
//
// Reads one message. After a fault the rest is read as empty; the first fault is kept, and whoever
// reads all of the message asks for it at the end. Field names are for the fault's text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/wire/messages.h"
#include "protocol_generated.h"

namespace dslide {

inline BatchId FromWire(const wire::BatchId& batch) {
  return {batch.epoch(), batch.unit(), batch.index()};
}

// None for a number that no precision has.
std::optional<WirePrecision> FromWire(wire::Precision precision);

class WireReader {
 public:
  // `name` of the message lives as long as the reader. A message may unpack to a multiple of
  // `message_bytes`.
  WireReader(std::string_view name, size_t message_bytes);

  // Empty if all that was read is good.
  const std::string& fault() const { return fault_; }

  // Keeps the first fault.
  void Fail(std::string_view field, std::string_view reason) {
    if (!fault_.empty()) return;
    fault_ = fmt::format("malformed {}: {} {}", name_, field, reason);
  }
  void RequireSize(std::string_view field, size_t size, size_t wanted) {
    if (size != wanted) Fail(field, fmt::format("has {} entries instead of {}", size, wanted));
  }
  void RequireAtMost(std::string_view field, size_t size, size_t limit) {
    if (size > limit) Fail(field, fmt::format("has {} entries, more than {}", size, limit));
  }

  // False, with a fault, if `bytes` more would be too much for one message.
  bool Charge(std::string_view field, size_t bytes);

  static constexpr size_t kMaxStringBytes = size_t{1} << 20;
  static constexpr size_t kMaxStatusBytes = size_t{16} << 20;  // of thousands of members
  std::string String(std::string_view field, const flatbuffers::String* s,
                     size_t max_bytes = kMaxStringBytes);
  std::vector<std::string> Strings(
      std::string_view field,
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* strings);
  BatchId Batch(const wire::BatchId* batch);
  double Finite(std::string_view field, double value);

  // An enumeration whose wire form has the same numbers, up to From::MAX.
  template <typename To, typename From>
  To Enum(std::string_view field, From value) {
    if (value <= From::MAX) return static_cast<To>(value);
    Fail(field, fmt::format("has the unknown value {}", static_cast<int>(value)));
    return To{};
  }

  // Scalars as they are; an absent vector is an empty one.
  template <typename T>
  std::vector<T> Vector(std::string_view field, const flatbuffers::Vector<T>* v) {
    if (v == nullptr || !Charge(field, size_t{v->size()} * sizeof(T))) return {};
    return {v->data(), v->data() + v->size()};
  }
  // Finite ones.
  std::vector<float> Floats(std::string_view field, const flatbuffers::Vector<float>* v);

  // Numbers in LEB128.
  std::vector<uint32_t> Numbers(std::string_view field, const flatbuffers::Vector<uint8_t>* bytes);

  // Row starts from row lengths; a fault unless they add up to `total`.
  std::vector<uint32_t> Offsets(std::string_view field, const flatbuffers::Vector<uint8_t>* lengths,
                                size_t total);

  // A fault if it is absent.
  Matrix DenseMatrix(std::string_view field, const wire::Matrix* matrix);
  // No rows if it is absent.
  SparseRows Rows(std::string_view field, const wire::SparseRows* rows);

 private:
  WirePrecision Precision(std::string_view field, wire::Precision precision);

  // Scales of `rows` rows in int8; a fault unless there are none in another precision.
  std::vector<float> Scales(std::string_view field, const flatbuffers::Vector<float>* scales,
                            WirePrecision precision, size_t rows);

  void ReadValues(std::string_view field, const uint8_t* bytes, WirePrecision precision,
                  std::span<const float> scales, SparseRows* rows);

  const std::string_view name_;
  const size_t max_unpacked_bytes_;
  size_t unpacked_bytes_ = 0;
  std::string fault_;
};

}  // namespace dslide
