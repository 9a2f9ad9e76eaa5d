// Checksums of files and of streams of bytes: XXH3, 64 bits, in its canonical form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/error.h"

namespace dslide {

// Of bytes that come piece by piece.
class StreamChecksum {
 public:
  StreamChecksum();
  ~StreamChecksum();
  StreamChecksum(StreamChecksum&&) noexcept;
  StreamChecksum& operator=(StreamChecksum&&) noexcept;

  void Add(const void* data, size_t bytes);
  uint64_t Value() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Of bytes that are there at once; another seed gives an unrelated value.
uint64_t ChecksumOf(std::span<const uint8_t> bytes, uint64_t seed = 0);

// Of a whole file. Errors (kFailed) name the file.
Result<uint64_t> FileChecksum(const std::string& path);

}  // namespace dslide
