#include "common/wire/wire_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/wire/wire_arrays.h"

namespace dslide {
namespace {

constexpr uint32_t kMaxMatrixCols = 65536;

// A message may unpack to so many times its own bytes: a small buffer can name the same vector many
// times. The largest honest factor is 40, of an all-zero matrix in int8: a bit an element becomes a
// byte and then a float.
constexpr size_t kMaxUnpackedFactor = 64;

// And to no more than this, twice the largest message: fp32 from bf16. A message in int8 that would
// need more is above 256 MiB.
constexpr size_t kMaxUnpackedBytes = 2 * kMaxMessageBytes;

bool IsFixedSum(int64_t number) { return -kFixedSumLimit <= number && number < kFixedSumLimit; }

// The elements of one matrix: all of `data`, or, `packed`, those whose bit of `bits` is set.
void ReadFloats(std::span<const uint8_t> data, bool packed, std::span<const uint8_t> bits,
                WirePrecision precision, Matrix* result) {
  if (packed) return UnpackNonzero(bits, data, precision, result->data);
  UnpackFloats(data.data(), precision, result->data);
}

void ReadInt8(std::span<const uint8_t> data, bool packed, std::span<const uint8_t> bits,
              std::span<const float> scales, Matrix* result) {
  if (packed) return UnpackNonzeroInt8(bits, data, scales, result->data);
  for (size_t i = 0; i < result->rows; ++i) {
    UnpackInt8(data.data() + i * result->cols, scales[i], {result->row(i), result->cols});
  }
}

}  // namespace

std::optional<WirePrecision> FromWire(wire::Precision precision) {
  switch (precision) {
    case wire::Precision::Fp32:
      return WirePrecision::kFp32;
    case wire::Precision::Bf16:
      return WirePrecision::kBf16;
    case wire::Precision::Int8:
      return WirePrecision::kInt8;
    case wire::Precision::Fixed64:
      break;  // read by Fixed()
  }
  return std::nullopt;
}

WireReader::WireReader(std::string_view name, size_t message_bytes)
    : name_(name),
      max_unpacked_bytes_(std::min(message_bytes * kMaxUnpackedFactor, kMaxUnpackedBytes)) {}

void WireReader::Fail(std::string_view reason) {
  if (!fault_.empty()) return;
  std::string path;
  for (size_t i = 0; i < depth_; ++i) path += i == 0 ? path_[i] : fmt::format(".{}", path_[i]);
  fault_ = fmt::format("malformed {}: {} {}", name_, path, reason);
}

void WireReader::Fail(const char* field, std::string_view reason) {
  const InField in(this, field);
  Fail(reason);
}

bool WireReader::Charge(size_t bytes) {
  if (bytes <= max_unpacked_bytes_ - unpacked_bytes_) {
    unpacked_bytes_ += bytes;
    return true;
  }
  Fail(fmt::format("makes the message unpack to more than {} bytes", max_unpacked_bytes_));
  return false;
}

std::string WireReader::String(const flatbuffers::String* s, size_t max_bytes) {
  if (s == nullptr) return {};
  if (s->size() > max_bytes) {
    Fail(fmt::format("is {} bytes long, more than {}", s->size(), max_bytes));
    return {};
  }
  return Charge(s->size()) ? s->str() : std::string();
}

std::vector<std::string> WireReader::Strings(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* strings) {
  std::vector<std::string> result;
  if (strings == nullptr || !Charge(size_t{strings->size()} * sizeof(std::string))) return result;
  for (const flatbuffers::String* s : *strings) result.push_back(String(s));
  return result;
}

BatchId WireReader::Batch(const wire::BatchId* batch) {
  if (batch != nullptr) return {batch->epoch(), batch->unit(), batch->index()};
  Fail("is missing");
  return {};
}

void WireReader::RequireFinite(double value) {
  if (!std::isfinite(value)) Fail("is not finite");
}

WirePrecision WireReader::Precision(wire::Precision precision) {
  const auto known = FromWire(precision);
  if (!known) Fail(fmt::format("has the unknown precision {}", static_cast<int>(precision)));
  return known.value_or(WirePrecision::kBf16);
}

std::vector<float> WireReader::Floats(const flatbuffers::Vector<float>* v) {
  std::vector<float> result = Vector(v);
  if (!AllFinite(result)) Fail("holds a number that is not finite");
  return result;
}

std::vector<float> WireReader::Scales(const flatbuffers::Vector<float>* scales,
                                      WirePrecision precision, size_t rows) {
  const InField in(this, "scales");
  std::vector<float> result = Vector(scales);
  RequireSize(result.size(), precision == WirePrecision::kInt8 ? rows : 0);
  if (!AreInt8Scales(result)) Fail("holds a number that is no scale from 0 to 2^120");
  return result;
}

auto WireReader::StoredElements(const wire::Matrix* matrix, size_t element_bytes)
    -> std::optional<Stored> {
  if (matrix->rows() > kMaxBatchSamples || matrix->cols() > kMaxMatrixCols) {
    Fail(fmt::format("of {} x {} is larger than {} x {}", matrix->rows(), matrix->cols(),
                     kMaxBatchSamples, kMaxMatrixCols));
    return std::nullopt;
  }
  const size_t elements = size_t{matrix->rows()} * matrix->cols();
  const auto* bitmap = matrix->nonzero();
  Stored stored{{}, {}, bitmap != nullptr, elements};
  if (bitmap != nullptr) stored.bits = {bitmap->data(), bitmap->size()};
  if (bitmap != nullptr &&
      (stored.bits.size() != BitmapBytes(elements) || !PaddingIsZero(stored.bits, elements))) {
    Fail(fmt::format("of {} x {} has a bitmap that does not fit ({} bytes)", matrix->rows(),
                     matrix->cols(), stored.bits.size()));
    return std::nullopt;
  }
  if (bitmap != nullptr) stored.count = PopCount(stored.bits);
  if (matrix->data() != nullptr) stored.data = {matrix->data()->data(), matrix->data()->size()};
  if (stored.data.size() != stored.count * element_bytes) {
    Fail(fmt::format("of {} x {} has {} bytes of data instead of {}", matrix->rows(),
                     matrix->cols(), stored.data.size(), stored.count * element_bytes));
    return std::nullopt;
  }
  return stored;
}

Matrix WireReader::DenseMatrix(const wire::Matrix* matrix) {
  if (matrix == nullptr) {
    Fail("is missing");
    return {};
  }
  const WirePrecision precision = Precision(matrix->precision());
  const auto stored = StoredElements(matrix, WireFloatBytes(precision));
  if (!stored) return {};
  const size_t elements = size_t{matrix->rows()} * matrix->cols();
  const bool int8 = precision == WirePrecision::kInt8;
  const std::vector<float> scales = Scales(matrix->scales(), precision, matrix->rows());
  if (!fault_.empty() || !Charge(elements * sizeof(float))) return {};

  Matrix result(matrix->rows(), matrix->cols());
  if (int8) {
    ReadInt8(stored->data, stored->packed, stored->bits, scales, &result);
    return result;
  }
  ReadFloats(stored->data, stored->packed, stored->bits, precision, &result);
  if (!AllFinite(result.data)) Fail("holds a number that is not finite");
  return result;
}

FixedMatrix WireReader::Fixed(const wire::Matrix& matrix) {
  const auto stored = StoredElements(&matrix, sizeof(int64_t));
  if (!stored) return {};
  {
    const InField in(this, "scales");
    RequireSize(matrix.scales() != nullptr ? matrix.scales()->size() : 0, 0);
  }
  const size_t elements = size_t{matrix.rows()} * matrix.cols();
  if (!fault_.empty() || !Charge((elements + stored->count) * sizeof(int64_t))) return {};
  std::vector<int64_t> numbers(stored->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), stored->data.data(), stored->data.size());
  if (!std::ranges::all_of(numbers, IsFixedSum)) Fail("holds a number of 2^24 or more");
  FixedMatrix result;
  result.rows = matrix.rows();
  result.cols = matrix.cols();
  if (stored->packed) {
    result.data.resize(elements);
    UnpackNonzero(stored->bits, numbers, result.data);
  } else {
    result.data = std::move(numbers);
  }
  return result;
}

PartialSum WireReader::Partial(const wire::Matrix* matrix) {
  if (matrix != nullptr && matrix->precision() == wire::Precision::Fixed64) return Fixed(*matrix);
  return DenseMatrix(matrix);
}

std::vector<ExpSum> WireReader::ExpSums(const flatbuffers::Vector<const wire::ExpSum*>* sums) {
  // No sum of a finite model is near: exp(2^21) has place 94548.
  constexpr int32_t kMaxPlace = 1 << 20;
  constexpr uint64_t kMaxDigit = uint64_t{1} << 48;  // of 2^16 parts no sum overflows
  std::vector<ExpSum> result;
  if (sums == nullptr || !Charge(size_t{sums->size()} * sizeof(ExpSum))) return result;
  for (uint32_t i = 0; i < sums->size(); ++i) {
    wire::ExpSum sum;
    std::memcpy(&sum, sums->Data() + i * sizeof sum, sizeof sum);  // it may lie anywhere
    const bool empty = sum.place() == ExpSum::kEmpty && sum.high() == 0 && sum.low() == 0;
    const bool good = std::abs(int64_t{sum.place()}) <= kMaxPlace && sum.high() > 0 &&
                      sum.high() <= kMaxDigit && sum.low() <= kMaxDigit;
    if (!empty && !good) Fail("holds a number that is no sum of exponentials");
    result.push_back({sum.place(), sum.high(), sum.low()});
  }
  return result;
}

std::vector<uint32_t> WireReader::Numbers(const flatbuffers::Vector<uint8_t>* bytes) {
  if (bytes == nullptr) return {};
  const std::span<const uint8_t> packed(bytes->data(), bytes->size());
  const size_t count = CountNumbers(packed);
  RequireAtMost(count, kMaxBatchSamples);
  if (!fault_.empty() || !Charge(count * sizeof(uint32_t))) return {};
  std::vector<uint32_t> numbers(count);
  if (!UnpackNumbers(packed, numbers)) Fail("holds bytes that are no numbers");
  return numbers;
}

std::vector<uint32_t> WireReader::Offsets(const flatbuffers::Vector<uint8_t>* lengths,
                                          size_t total) {
  std::vector<uint32_t> offsets = Numbers(lengths);
  uint64_t sum = 0;  // at most 2^16 lengths below 2^32: no overflow
  for (const uint32_t length : offsets) sum += length;
  if (sum != total) Fail(fmt::format("add up to {} instead of {} ids", sum, total));
  if (!fault_.empty()) return {0};

  offsets.insert(offsets.begin(), 0);
  for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  return offsets;
}

void WireReader::ReadValues(const uint8_t* bytes, WirePrecision precision,
                            std::span<const float> scales, SparseRows* rows) {
  rows->values.resize(rows->ids.size());
  if (precision == WirePrecision::kInt8) {
    for (size_t i = 0; i < rows->rows(); ++i) {
      const uint32_t begin = rows->offsets[i];
      const uint32_t length = rows->offsets[i + 1] - begin;
      UnpackInt8(bytes + begin, scales[i], {rows->values.data() + begin, length});
    }
    return;
  }
  UnpackFloats(bytes, precision, rows->values);
  if (!AllFinite(rows->values)) Fail("holds a number that is not finite");
}

SparseRows WireReader::Rows(const wire::SparseRows* rows) {
  SparseRows result;
  if (rows == nullptr) return result;
  std::span<const uint8_t> gaps;
  if (rows->gaps() != nullptr) gaps = {rows->gaps()->data(), rows->gaps()->size()};
  if (!gaps.empty() && rows->ids() != nullptr && rows->ids()->size() > 0) {
    Fail("has both ids and gaps");
    return result;
  }
  const size_t total =
      !gaps.empty() ? CountNumbers(gaps) : (rows->ids() != nullptr ? rows->ids()->size() : 0);
  const size_t bytes = rows->values() != nullptr ? rows->values()->size() : 0;
  const WirePrecision precision = Precision(rows->precision());
  if (bytes != 0 && bytes != total * WireFloatBytes(precision)) {
    Fail(fmt::format("has {} bytes of values for {} ids", bytes, total));
    return result;
  }
  {
    const InField in(this, "lengths");
    result.offsets = Offsets(rows->lengths(), total);
  }
  const std::vector<float> scales =
      Scales(rows->scales(), precision, bytes != 0 ? result.rows() : 0);
  if (gaps.empty()) {
    result.ids = Vector(rows->ids());
  } else if (fault_.empty() && Charge(total * sizeof(uint32_t))) {
    result.ids.resize(total);
    if (!UnpackGaps(gaps, result.offsets, result.ids)) Fail("has gaps that are no ids");
  }
  if (bytes != 0 && fault_.empty() && Charge(total * sizeof(float))) {
    ReadValues(rows->values()->data(), precision, scales, &result);
  }
  return result;
}

}  // namespace dslide
