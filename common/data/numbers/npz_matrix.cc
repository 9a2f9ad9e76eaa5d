#include "common/data/numbers/npz_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/nearest.h"
#include "common/base/plural.h"

namespace dslide {
namespace {

constexpr size_t kReadAhead = 8192;  // items
// Of a row, so that a small file that unpacks to a long one cannot eat the memory.
constexpr int64_t kMostEntries = int64_t{1} << 24;

Status CheckFormat(const NpzArchive& archive, const std::string& path) {
  Result<NpzArray> format = archive.Array("format");
  DSLIDE_RETURN_IF_ERROR(format);
  const Result<std::string> name = format->ReadString();
  DSLIDE_RETURN_IF_ERROR(name);
  if (*name == "csr") return {};
  return BadInput(fmt::format(
      "{}: is a {} matrix (expected csr; write it by scipy.sparse.save_npz(path, X.tocsr()))", path,
      Printable(*name)));
}

}  // namespace

Result<NpzMatrix> NpzMatrix::Open(const std::string& path) {
  Result<NpzArchive> archive = NpzArchive::Open(path);
  DSLIDE_RETURN_IF_ERROR(archive);
  DSLIDE_RETURN_IF_ERROR(CheckFormat(*archive, path));
  Result<NpzArray> ends = archive->Array("indptr");
  DSLIDE_RETURN_IF_ERROR(ends);
  Result<NpzArray> columns = archive->Array("indices");
  DSLIDE_RETURN_IF_ERROR(columns);
  Result<NpzArray> values = archive->Array("data");
  DSLIDE_RETURN_IF_ERROR(values);
  NpzMatrix matrix(path, *std::move(archive), {*std::move(ends), {}, {}},
                   {*std::move(columns), {}, {}}, {*std::move(values), {}, {}});
  DSLIDE_RETURN_IF_ERROR(matrix.ReadShape());
  DSLIDE_RETURN_IF_ERROR(matrix.Start());
  return matrix;
}

Status NpzMatrix::ReadShape() {
  Result<NpzArray> shape = archive_.Array("shape");
  DSLIDE_RETURN_IF_ERROR(shape);
  std::vector<int64_t> sizes;
  DSLIDE_RETURN_IF_ERROR(shape->ReadWhole(3, &sizes));
  if (sizes.size() != 2 || sizes[0] < 0 || sizes[1] < 0) return shape->Bad("is no matrix's shape");
  if (sizes[1] < 1 || sizes[1] > std::numeric_limits<uint32_t>::max()) {
    return shape->Bad(fmt::format("{} columns (expected 1 to {})", sizes[1],
                                  std::numeric_limits<uint32_t>::max()));
  }
  rows_ = static_cast<uint64_t>(sizes[0]);
  columns_ = static_cast<uint32_t>(sizes[1]);
  return {};
}

Status NpzMatrix::Start() {
  if (ends_.array.size() != rows_ + 1) {
    return ends_.array.Bad(fmt::format("{} for a matrix of {} (expected one more)",
                                       Plural(ends_.array.size(), "item"), Plural(rows_, "row")));
  }
  if (column_items_.array.size() != value_items_.array.size()) {
    return column_items_.array.Bad(fmt::format("{}, but data.npy has {}",
                                               Plural(column_items_.array.size(), "item"),
                                               value_items_.array.size()));
  }
  const Result<int64_t> first = NextWhole(&ends_);
  DSLIDE_RETURN_IF_ERROR(first);
  if (*first != 0) return ends_.array.Bad("does not begin with 0");
  return {};
}

Result<int64_t> NpzMatrix::NextWhole(Items* items) {
  if (items->next == items->whole.size()) {
    DSLIDE_RETURN_IF_ERROR(items->array.ReadWhole(kReadAhead, &items->whole));
    items->next = 0;
    if (items->whole.empty()) return items->array.Bad("the array ends early");
  }
  return items->whole[items->next++];
}

Result<double> NpzMatrix::NextNumber(Items* items) {
  if (items->next == items->real.size()) {
    DSLIDE_RETURN_IF_ERROR(items->array.ReadNumbers(kReadAhead, &items->real));
    items->next = 0;
    if (items->real.empty()) return items->array.Bad("the array ends early");
  }
  return items->real[items->next++];
}

Error NpzMatrix::BadRow(const std::string& what) const {
  return BadInput(fmt::format("{}: row {}: {}", path_, row_, what));
}

Status NpzMatrix::ReadRow() {
  const Result<int64_t> end = NextWhole(&ends_);
  DSLIDE_RETURN_IF_ERROR(end);
  if (*end < entries_) return BadRow("indptr.npy descends");
  if (*end - entries_ > kMostEntries) {
    return BadRow(fmt::format("{} entries (expected at most {})", *end - entries_, kMostEntries));
  }
  entries_of_row_.clear();
  for (; entries_ < *end; ++entries_) {
    const Result<int64_t> column = NextWhole(&column_items_);
    DSLIDE_RETURN_IF_ERROR(column);
    if (*column < 0 || *column >= int64_t{columns_}) {
      return BadRow(fmt::format("column {} is out of range (the matrix has {})", *column,
                                Plural(columns_, "column")));
    }
    const Result<double> value = NextNumber(&value_items_);
    DSLIDE_RETURN_IF_ERROR(value);
    entries_of_row_.emplace_back(static_cast<uint32_t>(*column), *value);
  }
  DSLIDE_RETURN_IF_ERROR(Sort());
  ++row_;
  return {};
}

Status NpzMatrix::Sort() {
  const auto by_column = [](const auto& a, const auto& b) { return a.first < b.first; };
  if (!std::ranges::is_sorted(entries_of_row_, by_column)) {
    std::ranges::stable_sort(entries_of_row_, by_column);
  }
  ids_.clear();
  values_.clear();
  for (size_t i = 0; i < entries_of_row_.size();) {
    const uint32_t id = entries_of_row_[i].first;
    double sum = 0;
    for (; i < entries_of_row_.size() && entries_of_row_[i].first == id; ++i) {
      sum += entries_of_row_[i].second;
    }
    const auto value = static_cast<float>(sum);
    if (!std::isfinite(value)) {
      return BadRow(
          fmt::format("the value of column {} is {} (expected a finite number)", id, sum));
    }
    ids_.push_back(id);
    values_.push_back(value);
  }
  return {};
}

Status NpzMatrix::ExpectEnd() {
  if (static_cast<uint64_t>(entries_) < column_items_.array.size()) {
    return ends_.array.Bad(fmt::format("ends at {}, but there are {}", entries_,
                                       Plural(column_items_.array.size(), "entry", "entries")));
  }
  // Where there is nothing to read, the archive's checksum has not been checked yet.
  DSLIDE_RETURN_IF_ERROR(column_items_.array.ReadWhole(1, &column_items_.whole));
  return value_items_.array.ReadNumbers(1, &value_items_.real);
}

}  // namespace dslide
