// What the fields of a verified FlatBuffer hold: strings, vectors, matrices, sparse rows.
//
// Reads one message. After a fault the rest is read as empty; the first fault is kept, and whoever
// reads all of the message asks for it at the end. It names the field: the one of the innermost
// InField.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/wire/messages.h"
#include "common/wire/vector_copy.h"
#include "protocol_generated.h"

namespace dslide {

// None for a number that no precision has.
std::optional<WirePrecision> FromWire(wire::Precision precision);

class WireReader {
 public:
  // Fields within fields: GradientReply has active.probes.ids.
  static constexpr size_t kMaxDepth = 8;

  // `name` of the message lives as long as the reader. A message may unpack to a multiple of
  // `message_bytes`.
  WireReader(std::string_view name, size_t message_bytes);

  // While it lives, the field `name` of the table that is being read is read.
  class InField {
   public:
    InField(WireReader* reader, const char* name) : reader_(reader) {
      DSLIDE_CHECK(reader->depth_ < kMaxDepth);
      reader->path_[reader->depth_++] = name;
    }
    ~InField() { reader_->depth_--; }
    InField(const InField&) = delete;
    InField& operator=(const InField&) = delete;

   private:
    WireReader* reader_;
  };

  // Empty if all that was read is good.
  const std::string& fault() const { return fault_; }

  // Keeps the first fault: of the field that is being read, or of `field` within it.
  void Fail(std::string_view reason);
  void Fail(const char* field, std::string_view reason);
  void RequireSize(size_t size, size_t wanted) {
    if (size != wanted) {
      Fail(fmt::format("has {} instead of {}", Plural(size, "entry", "entries"), wanted));
    }
  }
  void RequireSize(const char* field, size_t size, size_t wanted) {
    const InField in(this, field);
    RequireSize(size, wanted);
  }
  void RequireAtMost(size_t size, size_t limit) {
    if (size > limit) {
      Fail(fmt::format("has {}, more than {}", Plural(size, "entry", "entries"), limit));
    }
  }
  void RequireAtMost(const char* field, size_t size, size_t limit) {
    const InField in(this, field);
    RequireAtMost(size, limit);
  }

  // False, with a fault, if `bytes` more would be too much for one message.
  bool Charge(size_t bytes);

  static constexpr size_t kMaxStringBytes = size_t{1} << 20;
  static constexpr size_t kMaxStatusBytes = size_t{16} << 20;  // of thousands of members
  std::string String(const flatbuffers::String* s, size_t max_bytes = kMaxStringBytes);
  std::vector<std::string> Strings(
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* strings);
  BatchId Batch(const wire::BatchId* batch);
  void RequireFinite(double value);

  // An enumeration whose wire form has the same numbers, up to From::MAX.
  template <typename To, typename From>
  To Enum(From value) {
    if (value <= From::MAX) return static_cast<To>(value);
    Fail(fmt::format("has the unknown value {}", static_cast<int>(value)));
    return To{};
  }

  // Scalars as they are; an absent vector is an empty one.
  template <typename T>
  std::vector<T> Vector(const flatbuffers::Vector<T>* v) {
    if (v == nullptr || !Charge(size_t{v->size()} * sizeof(T))) return {};
    return CopyOf(v);
  }
  // Finite ones.
  std::vector<float> Floats(const flatbuffers::Vector<float>* v);

  // Finite, and small enough to be added up.
  std::vector<ExpSum> ExpSums(const flatbuffers::Vector<const wire::ExpSum*>* sums);

  // Numbers in LEB128.
  std::vector<uint32_t> Numbers(const flatbuffers::Vector<uint8_t>* bytes);

  // Row starts from row lengths; a fault unless they add up to `total`.
  std::vector<uint32_t> Offsets(const flatbuffers::Vector<uint8_t>* lengths, size_t total);

  // A fault if it is absent.
  Matrix DenseMatrix(const wire::Matrix* matrix);
  PartialSum Partial(const wire::Matrix* matrix);
  // No rows if it is absent.
  SparseRows Rows(const wire::SparseRows* rows);

 private:
  WirePrecision Precision(wire::Precision precision);

  // The elements that a matrix stores: all, or, `packed`, those whose bit of `bits` is set.
  struct Stored {
    std::span<const uint8_t> data;
    std::span<const uint8_t> bits;
    bool packed;
    size_t count;
  };
  // Nothing, with a fault, if the matrix is too large or its bytes do not fit its shape.
  std::optional<Stored> StoredElements(const wire::Matrix* matrix, size_t element_bytes);
  FixedMatrix Fixed(const wire::Matrix& matrix);

  // Scales of `rows` rows in int8; a fault unless there are none in another precision.
  std::vector<float> Scales(const flatbuffers::Vector<float>* scales, WirePrecision precision,
                            size_t rows);

  void ReadValues(const uint8_t* bytes, WirePrecision precision, std::span<const float> scales,
                  SparseRows* rows);

  const std::string_view name_;
  std::array<const char*, kMaxDepth> path_;  // [depth_] to the field that is being read
  size_t depth_ = 0;
  const size_t max_unpacked_bytes_;
  size_t unpacked_bytes_ = 0;
  std::string fault_;
};

}  // namespace dslide
