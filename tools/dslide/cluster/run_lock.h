// A run directory that this process trains in, and no other dslide train at the same time.
#pragma once

#include <string>
#include <utility>

#include "common/base/error.h"

namespace dslide {

// Locks RUN/train.lock, however the process ends. A scheduler by itself has its ledger for that;
// but it opens it late.
class RunLock {
 public:
  // REQUIRES that the directory exists. kTryLater: another process has the lock.
  static Result<RunLock> Take(const std::string& run_directory);
  RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace dslide
