#include "common/data/numbers/npy_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "common/base/plural.h"
#include "common/data/text_stream.h"

namespace dslide {
namespace {

constexpr size_t kReadAheadBytes = size_t{1} << 20;

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction.
float FromHalf(uint16_t half) {
  const uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
  float size = 0;
  if (exponent == 0) {
    size = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
    size = std::bit_cast<float>(wide << 23 | fraction << 13);
  }
  return (half & 0x8000) != 0 ? -size : size;
}

}  // namespace

class NpyMatrix::File final : public NpySource {
 public:
  File(const std::string& path, std::ifstream* file) : path_(path), file_(*file) {}

  Status Fill(void* bytes, size_t size) override {
    if (file_.read(static_cast<char*>(bytes), static_cast<std::streamsize>(size))) return {};
    if (file_.bad()) return Bad(fmt::format("cannot read: {}", std::strerror(errno)));
    return Bad("the array ends early (copy the file again)");
  }
  Error Bad(const std::string& what) const override {
    return BadInput(fmt::format("{}: {}", path_, what));
  }

 private:
  const std::string& path_;
  std::ifstream& file_;
};

Result<NpyMatrix> NpyMatrix::Open(const std::string& path, bool column) {
  NpyMatrix matrix(path);
  File source(matrix.path_, &matrix.file_);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return source.Bad("is no regular file (a .npy array cannot be read from it)");
  }
  matrix.file_.open(path, std::ios::binary);
  if (!matrix.file_) return source.Bad(fmt::format("cannot open: {}", std::strerror(errno)));
  Result<NpyHeader> header = ReadNpyHeader(&source);
  DSLIDE_RETURN_IF_ERROR(header);
  if (column) {
    if (header->shape.size() == 1) header->shape.push_back(1);
    if (header->shape.size() != 2 || header->shape[1] != 1) {
      return source.Bad("is no vector (expected one number a sample)");
    }
  }
  DSLIDE_RETURN_IF_ERROR(matrix.Check(*header, source));
  return matrix;
}

Status NpyMatrix::Check(const NpyHeader& header, const NpySource& source) {
  const bool real = header.kind == 'f' &&
                    (header.item_size == 2 || header.item_size == 4 || header.item_size == 8);
  if (!real || header.big_endian) {
    return source.Bad(fmt::format(
        "has items of type {} (expected float16, float32 or float64, little-endian; write it by "
        "numpy.save(path, V.astype('<f4')))",
        Quoted(header.type)));
  }
  if (header.shape.size() != 2) {
    return source.Bad(fmt::format("has {} (expected two, samples and features)",
                                  Plural(header.shape.size(), "dimension")));
  }
  if (header.fortran_order) {
    return source.Bad(
        "is in Fortran order (expected C order; write it by numpy.save(path, "
        "numpy.ascontiguousarray(V)))");
  }
  if (header.shape[1] < 1 || header.shape[1] > std::numeric_limits<uint32_t>::max()) {
    return source.Bad(fmt::format("{} (expected 1 to {})", Plural(header.shape[1], "column"),
                                  std::numeric_limits<uint32_t>::max()));
  }
  rows_ = header.shape[0];
  columns_ = static_cast<uint32_t>(header.shape[1]);
  item_size_ = header.item_size;
  std::error_code failed;
  const uint64_t bytes = std::filesystem::file_size(path_, failed);
  if (failed) return source.Bad(fmt::format("cannot read: {}", failed.message()));
  const uint64_t of_items = bytes - std::min<uint64_t>(bytes, header.bytes);
  if (of_items / item_size_ < header.size) {
    return source.Bad("the array ends early (copy the file again)");
  }
  if (of_items / item_size_ > header.size || of_items % item_size_ != 0) {
    return source.Bad("has more items than its header says");
  }
  return {};
}

std::string NpyMatrix::description() const {
  return fmt::format("dense {} float{}", columns_, 8 * item_size_);
}

Status NpyMatrix::ReadAhead() {
  const size_t row_bytes = columns_ * item_size_;
  const uint64_t rows =
      std::min<uint64_t>(rows_ - row_, std::max<size_t>(kReadAheadBytes / row_bytes, 1));
  buffer_.resize(static_cast<size_t>(rows) * row_bytes);
  next_ = 0;
  return File(path_, &file_).Fill(buffer_.data(), buffer_.size());
}

double NpyMatrix::Item(const char* row, uint32_t column) const {
  const char* from = row + column * item_size_;
  switch (item_size_) {
    case 2:
      return FromHalf(Load<uint16_t>(from));
    case 4:
      return Load<float>(from);
    default:
      return Load<double>(from);
  }
}

Status NpyMatrix::ReadRow() {
  if (next_ == buffer_.size()) DSLIDE_RETURN_IF_ERROR(ReadAhead());
  const char* row = buffer_.data() + next_;
  ids_.clear();
  values_.clear();
  for (uint32_t column = 0; column < columns_; ++column) {
    const double item = Item(row, column);
    const auto value = static_cast<float>(item);
    if (!std::isfinite(value)) {
      return BadInput(
          fmt::format("{}: row {}: the value of column {} is {} (expected a finite number)", path_,
                      row_, column, item));
    }
    if (value == 0) continue;
    ids_.push_back(column);
    values_.push_back(value);
  }
  next_ += columns_ * item_size_;
  ++row_;
  return {};
}

}  // namespace dslide
