#include "common/data/numbers/row_matrix.h"

#include <utility>

#include "common/data/numbers/npy_matrix.h"
#include "common/data/numbers/npz_matrix.h"

namespace dslide {

Result<std::unique_ptr<RowMatrix>> OpenRowMatrix(const std::string& path) {
  if (IsNpyFile(path) || path.ends_with(".npy")) {
    Result<NpyMatrix> dense = NpyMatrix::Open(path);
    DSLIDE_RETURN_IF_ERROR(dense);
    return std::unique_ptr<RowMatrix>(std::make_unique<NpyMatrix>(*std::move(dense)));
  }
  Result<NpzMatrix> sparse = NpzMatrix::Open(path);
  DSLIDE_RETURN_IF_ERROR(sparse);
  return std::unique_ptr<RowMatrix>(std::make_unique<NpzMatrix>(*std::move(sparse)));
}

}  // namespace dslide
