#include "tools/dslide/cluster/run_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dslide {

Result<RunLock> RunLock::Take(const std::string& run_directory) {
  const std::string path = run_directory + "/train.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  RunLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return lock;
  return TryLater(fmt::format("{}: another dslide train works there", run_directory));
}

RunLock::~RunLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace dslide
