// Checksums of files and of streams of bytes: XXH3, 64 bits, in its canonical form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/error.h"

namespace dslide {

// Checksum of bytes that arrive in pieces.
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

// Checksum of bytes in memory; different seeds give unrelated values.
uint64_t ChecksumOf(std::span<const uint8_t> bytes, uint64_t seed = 0);

// Checksum of a whole file. Errors (kFailed) name the file.
Result<uint64_t> FileChecksum(const std::string& path);

}  // namespace dslide
