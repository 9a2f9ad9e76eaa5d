#include "common/data/file_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dslide {

Result<FileLock> FileLock::Wait(const std::string& path, Links links) {
  const int flags = links == Links::kRefused ? O_NOFOLLOW : 0;
  FileLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, S_IRUSR | S_IWUSR));
  if (lock.fd_ >= 0 && flock(lock.fd_, LOCK_EX) == 0) return lock;
  const char* const verb = lock.fd_ < 0 ? "open" : "lock";
  return Failed(fmt::format("{}: cannot {}: {}", path, verb, std::strerror(errno)));
}

Result<FileLock> FileLock::Try(const std::string& path, const std::string& taken, Heirs heirs) {
  const int flags = heirs == Heirs::kChildren ? 0 : O_CLOEXEC;
  FileLock lock(open(path.c_str(), O_RDWR | O_CREAT | flags, 0644));
  if (lock.fd_ < 0)
    return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  if (flock(lock.fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return lock;
  return TryLater(taken);
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace dslide
