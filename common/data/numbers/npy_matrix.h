// A dense matrix in a .npy file (npy_header.h): float16, float32 or float64, little-endian, rows
// one after another (C order). Zeros are left out of its rows.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/numbers/npy_header.h"
#include "common/data/numbers/row_matrix.h"

namespace dslide {

class NpyMatrix final : public RowMatrix {
 public:
  static Result<NpyMatrix> Open(const std::string& path) { return Open(path, /*column=*/false); }
  // A vector, or a matrix of one column.
  static Result<NpyMatrix> OpenColumn(const std::string& path) {
    return Open(path, /*column=*/true);
  }

  const std::string& path() const override { return path_; }
  uint64_t rows() const override { return rows_; }
  uint32_t columns() const override { return columns_; }
  std::string description() const override;
  Status ReadRow() override;
  Status ExpectEnd() override { return {}; }  // Open() compares the file's length
  std::span<const uint32_t> ids() const override { return ids_; }
  std::span<const float> values() const override { return values_; }

 private:
  class File;
  explicit NpyMatrix(std::string path) : path_(std::move(path)) {}

  static Result<NpyMatrix> Open(const std::string& path, bool column);
  Status Check(const NpyHeader& header, const NpySource& source);
  Status ReadAhead();
  double Item(const char* row, uint32_t column) const;

  std::string path_;
  std::ifstream file_;
  uint64_t rows_ = 0;
  uint32_t columns_ = 0;
  size_t item_size_ = 0;      // bytes
  uint64_t row_ = 0;          // rows read
  std::vector<char> buffer_;  // whole rows
  size_t next_ = 0;           // byte of buffer_ where the next row begins
  std::vector<uint32_t> ids_;
  std::vector<float> values_;
};

}  // namespace dslide
