// A file that at most one process has locked. The lock ends with its object, or with the process,
// however that ends; the file stays.
#pragma once

#include <string>
#include <utility>

#include "common/base/error.h"

namespace dslide {

// Not thread-safe. Two locks of one process exclude each other as those of two processes do.
class FileLock {
 public:
  enum class Heirs { kNone, kChildren };  // kChildren: processes started later have the lock, too

  enum class Links { kFollowed, kRefused };

  // Creates the file, for its user alone, and waits until no other has the lock. kFailed: it cannot
  // be created or locked, or is a symbolic link that is refused.
  static Result<FileLock> Wait(const std::string& path, Links links = Links::kFollowed);
  // Creates the file, and does not wait. kTryLater with the line `taken`: another has the lock.
  // kBadInput: the file cannot be created. A file system without locks excludes nobody.
  static Result<FileLock> Try(const std::string& path, const std::string& taken,
                              Heirs heirs = Heirs::kNone);

  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // For reading and writing the file.
  int fd() const { return fd_; }

 private:
  explicit FileLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace dslide
