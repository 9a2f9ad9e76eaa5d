// Samples of sparse matrices as scipy.sparse.save_npz writes them: compressed sparse rows (CSR), a
// row a sample. One file has the features, another one, if there are labels, the labels: an entry
// that is not 0 is a label. Arrays of indices are int32 or int64, values any numbers; entries of a
// row come in any order, and those of one column are added, as scipy does.
//
// The files are read as a stream, in memory for a few rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/numbers/npz_archive.h"
#include "common/data/xc_reader.h"

namespace dslide {

class NpzMatrix {
 public:
  static Result<NpzMatrix> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }

  // Reads the next row. REQUIRES that there is one.
  Status ReadRow();
  // Checks that the arrays end after the last row.
  Status ExpectEnd();
  // Of the row that was read: ascending columns, and their values.
  std::span<const uint32_t> ids() const { return ids_; }
  std::span<const float> values() const { return values_; }
  void LeaveOutZeros();

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

class NpzReader {
 public:
  // `labels` may be empty: the samples have none. Errors (kBadInput) name the file.
  static Result<NpzReader> Open(const std::string& features, const std::string& labels);

  // Without labels num_labels is 0.
  const XcHeader& header() const { return header_; }
  // The next sample, or nullopt at the end; the view is valid until the next call.
  Result<std::optional<SampleView>> Next();

 private:
  explicit NpzReader(NpzMatrix features) : features_(std::move(features)) {}

  NpzMatrix features_;
  std::optional<NpzMatrix> labels_;
  XcHeader header_;
  uint64_t read_ = 0;  // samples
};

}  // namespace dslide
