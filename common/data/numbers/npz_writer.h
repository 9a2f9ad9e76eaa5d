// Writes a sparse matrix as scipy.sparse.save_npz writes it: scipy.sparse.load_npz and NpzMatrix
// read it. Values are float32, indices int32 where that is enough.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/data/numbers/npz_archive_writer.h"

namespace dslide {

// The arrays are kept in files beside the output, which has its name once it is complete. One
// thread uses an object.
class NpzWriter {
 public:
  static Result<NpzWriter> Create(const std::string& path);

  // The next row: its columns, ascending, and their values. Finish() reports a failure.
  void AddRow(std::span<const uint32_t> columns, std::span<const float> values);
  // REQUIRES columns above all that were added.
  Status Finish(uint32_t columns);

 private:
  explicit NpzWriter(NpzArchiveWriter archive) : archive_(std::move(archive)) {}

  NpzArchiveWriter archive_;
  std::vector<ScratchFile> arrays_;  // indptr, indices, data: each behind room for its header
  uint64_t rows_ = 0;
  int64_t entries_ = 0;
};

}  // namespace dslide
