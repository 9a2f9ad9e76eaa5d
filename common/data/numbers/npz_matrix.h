// A sparse matrix as scipy.sparse.save_npz writes it: compressed sparse rows (CSR). Arrays of
// indices are int32 or int64, values any numbers; entries of a row come in any order, and those of
// one column are added, as scipy does. A row has at most 2^24 of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/numbers/npz_archive.h"
#include "common/data/numbers/row_matrix.h"

namespace dslide {

class NpzMatrix final : public RowMatrix {
 public:
  static Result<NpzMatrix> Open(const std::string& path);

  const std::string& path() const override { return path_; }
  uint64_t rows() const override { return rows_; }
  uint32_t columns() const override { return columns_; }
  std::string description() const override { return "npz"; }
  Status ReadRow() override;
  Status ExpectEnd() override;
  std::span<const uint32_t> ids() const override { return ids_; }
  std::span<const float> values() const override { return values_; }

 private:
  // An array, of which some items are read ahead.
  struct Items {
    NpzArray array;
    std::vector<int64_t> whole;
    std::vector<double> real;
    size_t next = 0;
  };

  NpzMatrix(std::string path, NpzArchive archive, Items ends, Items columns, Items values)
      : path_(std::move(path)),
        archive_(std::move(archive)),
        ends_(std::move(ends)),
        column_items_(std::move(columns)),
        value_items_(std::move(values)) {}

  Status ReadShape();
  Status Start();
  Result<int64_t> NextWhole(Items* items);
  Result<double> NextNumber(Items* items);
  Status Sort();
  Error BadRow(const std::string& what) const;

  std::string path_;
  NpzArchive archive_;
  Items ends_;  // scipy's indptr
  Items column_items_;
  Items value_items_;
  uint64_t rows_ = 0;
  uint32_t columns_ = 0;
  uint64_t row_ = 0;     // rows read
  int64_t entries_ = 0;  // entries read
  std::vector<uint32_t> ids_;
  std::vector<float> values_;
  std::vector<std::pair<uint32_t, double>> entries_of_row_;
};

}  // namespace dslide
