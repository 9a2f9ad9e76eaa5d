// Writes a sparse matrix as scipy.sparse.save_npz writes it: scipy.sparse.load_npz and NpzMatrix
// read it. Values are float32, indices int32 where that is enough.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "common/base/error.h"

namespace dslide {

// The arrays are kept in temporary files beside the output, which has its name once it is complete.
// One thread uses an object.
class NpzWriter {
 public:
  static Result<NpzWriter> Create(const std::string& path);
  NpzWriter(NpzWriter&& other) noexcept;
  ~NpzWriter();  // removes what is not finished

  // The next row: its columns, ascending, and their values. Finish() reports a failure.
  void AddRow(std::span<const uint32_t> columns, std::span<const float> values);
  // REQUIRES columns above all that were added.
  Status Finish(uint32_t columns);

 private:
  // The bytes of an array behind room for its header.
  struct Spool {
    std::FILE* file = nullptr;
    std::string path;
  };
  static constexpr size_t kArrays = 3;  // indptr, indices, data

  explicit NpzWriter(std::string path) : path_(std::move(path)) {}
  void Append(size_t array, const void* bytes, size_t size);
  void RemoveSpools();
  Status WriteArchive(uint32_t columns);

  std::string path_;
  Spool spools_[kArrays];
  uint64_t rows_ = 0;
  int64_t entries_ = 0;
  int error_ = 0;  // errno of the first failure
};

}  // namespace dslide
