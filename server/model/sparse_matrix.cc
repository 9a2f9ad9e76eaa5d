#include "server/model/sparse_matrix.h"

#include <utility>

namespace dslide {

void Transpose(const SparseMatrix& matrix, std::span<const uint32_t> columns, uint32_t width,
               SparseMatrix* out) {
  // offsets[c + 1] is first the length of row c, then the place of its next entry, which ends as
  // the place of row c + 1.
  out->offsets.assign(width + 1, 0);
  for (const uint32_t column : columns) out->offsets[column + 1]++;
  uint32_t total = 0;
  for (uint32_t c = 1; c <= width; ++c) total += std::exchange(out->offsets[c], total);
  out->columns.resize(total);
  out->values.resize(total);
  for (uint32_t row = 0; row < matrix.rows(); ++row) {
    for (uint32_t e = matrix.offsets[row]; e < matrix.offsets[row + 1]; ++e) {
      const uint32_t at = out->offsets[columns[e] + 1]++;
      out->columns[at] = row;
      out->values[at] = matrix.values[e];
    }
  }
}

}  // namespace dslide
