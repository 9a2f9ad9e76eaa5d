// A sparse matrix in compressed rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dslide {

// Row i has entries [offsets[i], offsets[i+1]).
struct SparseMatrix {
  std::vector<uint32_t> offsets = {0};
  std::vector<uint32_t> columns;
  std::vector<float> values;

  uint32_t rows() const { return static_cast<uint32_t>(offsets.size() - 1); }
  void Clear() {
    offsets.assign(1, 0);
    columns.clear();
    values.clear();
  }
  void Append(uint32_t column, float value) {
    columns.push_back(column);
    values.push_back(value);
  }
  void EndRow() { offsets.push_back(static_cast<uint32_t>(columns.size())); }

  std::span<const uint32_t> Columns(uint32_t row) const {
    return std::span(columns).subspan(offsets[row], offsets[row + 1] - offsets[row]);
  }
  std::span<const float> Values(uint32_t row) const {
    return std::span(values).subspan(offsets[row], offsets[row + 1] - offsets[row]);
  }
};

// The transpose of a matrix that has `width` columns, whose entry e is in column columns[e].
// Entries of a row of *out are in the order of the given matrix's rows.
void Transpose(const SparseMatrix& matrix, std::span<const uint32_t> columns, uint32_t width,
               SparseMatrix* out);

}  // namespace dslide
