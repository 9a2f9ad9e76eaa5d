// A matrix that is read row by row, in memory for a few rows: the features or the labels of
// samples, a row a sample.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/error.h"

namespace dslide {

// Errors (kBadInput) name the file. One thread uses an object.
class RowMatrix {
 public:
  virtual ~RowMatrix() = default;

  virtual const std::string& path() const = 0;
  virtual uint64_t rows() const = 0;
  virtual uint32_t columns() const = 0;  // at least 1
  // For people: "npz", "dense 768 float32".
  virtual std::string description() const = 0;

  // Reads the next row. REQUIRES that there is one.
  virtual Status ReadRow() = 0;
  // Checks that the file ends after the last row.
  virtual Status ExpectEnd() = 0;
  // Of the row that was read: ascending columns, and their values, which are finite. A dense matrix
  // has no zeros here; a sparse one has those that are stored. Valid until the next ReadRow().
  virtual std::span<const uint32_t> ids() const = 0;
  virtual std::span<const float> values() const = 0;

 protected:
  RowMatrix() = default;
  RowMatrix(RowMatrix&&) = default;
};

// Opens a file of either kind: what begins as a .npy array, or is called so, is dense.
Result<std::unique_ptr<RowMatrix>> OpenRowMatrix(const std::string& path);

}  // namespace dslide
