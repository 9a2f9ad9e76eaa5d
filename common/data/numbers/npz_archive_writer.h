// Writes a NumPy archive (npz_archive.h).
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/data/scratch_file.h"

namespace dslide {

// The archive has its name once it is complete. Equal arrays make equal bytes. One thread uses an
// object.
class NpzArchiveWriter {
 public:
  enum class Packing { kStored, kDeflated };

  // Errors (kBadInput) name the path, which must be a regular file's if it exists.
  static Result<NpzArchiveWriter> Create(const std::string& path, Packing packing);
  NpzArchiveWriter(NpzArchiveWriter&&) noexcept;
  ~NpzArchiveWriter();

  // A file beside the archive for Add().
  Result<ScratchFile> NewArray() const;
  // The array NAME.npy: its header (NpyHeaderText) and its items.
  Status Add(const std::string& name, ScratchFile array);
  Status Finish();

 private:
  struct Handle;
  NpzArchiveWriter(std::string path, Packing packing, std::unique_ptr<Handle> handle);
  Error Failure() const;

  std::string path_;
  Packing packing_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace dslide
