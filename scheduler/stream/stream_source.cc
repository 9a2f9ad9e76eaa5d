#include "scheduler/stream/stream_source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dslide {
namespace {

Error Cannot(const std::string& path, const char* verb) {
  return BadInput(fmt::format("train.data = {}: cannot {}: {}", path, verb, std::strerror(errno)));
}

bool IsDevNull(const struct stat& file) {
  struct stat null;
  return S_ISCHR(file.st_mode) && stat("/dev/null", &null) == 0 && null.st_rdev == file.st_rdev;
}

}  // namespace

Result<StreamSource> StreamSource::Open(const std::string& path) {
  struct stat file;
  if (path == "-") {
    if (isatty(STDIN_FILENO) == 1) {
      return BadInput("train.data = -: standard input is a terminal; pipe a stream to it");
    }
    if (fstat(STDIN_FILENO, &file) != 0) return Cannot(path, "read");
    if (S_ISFIFO(file.st_mode)) return StreamSource(path, Kind::kPipe, STDIN_FILENO);
    if (S_ISREG(file.st_mode)) return StreamSource(path, Kind::kWholeFile, STDIN_FILENO);
    if (IsDevNull(file)) return StreamSource(path, Kind::kEmpty, STDIN_FILENO);
    return BadInput(
        fmt::format("train.data = -: standard input is {}, of which bytes are lost when the "
                    "scheduler is killed; pipe it: ... | cat | dslide train",
                    S_ISSOCK(file.st_mode) ? "a socket" : "no pipe and no file"));
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Cannot(path, "open");
  StreamSource source(path, Kind::kGrowingFile, fd);
  if (fstat(fd, &file) != 0) return Cannot(path, "open");
  if (!S_ISREG(file.st_mode)) {
    // A pipe by name loses its reader when the scheduler starts again, and with it its writer.
    return BadInput(fmt::format(
        "train.data = {}: is no file; give a pipe as standard input, by train.data=-", path));
  }
  source.watch_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (source.watch_ >= 0) {
    (void)inotify_add_watch(source.watch_, path.c_str(),
                            IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF);
  }
  return source;
}

StreamSource::StreamSource(StreamSource&& other) noexcept
    : path_(std::move(other.path_)),
      kind_(other.kind_),
      fd_(std::exchange(other.fd_, -1)),
      watch_(std::exchange(other.watch_, -1)) {}

StreamSource::~StreamSource() {
  if (watch_ >= 0) close(watch_);
  if (fd_ > STDIN_FILENO) close(fd_);
}

Result<StreamSource::Got> StreamSource::Fetch(Spool* spool) {
  if (is_empty()) return Got::kEnd;
  if (is_file()) return FetchFromFile(spool);
  const auto moved = spool->Splice(fd_, kMost);
  DSLIDE_RETURN_IF_ERROR(moved);
  if (!moved->has_value()) return Got::kNothing;
  return **moved > 0 ? Got::kBytes : Got::kEnd;
}

Result<std::string> StreamSource::ReadAt(uint64_t begin, uint64_t end) const {
  std::string bytes(end - begin, '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more =
        pread(fd_, bytes.data() + got, bytes.size() - got, static_cast<off_t>(begin + got));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return Cannot(path_, "read");
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  bytes.resize(got);
  return bytes;
}

Result<StreamSource::Got> StreamSource::FetchFromFile(Spool* spool) {
  struct stat file;
  if (fstat(fd_, &file) != 0) return Cannot(path_, "read");
  if (static_cast<uint64_t>(file.st_size) < spool->end()) {
    return BadInput(
        fmt::format("train.data = {}: was cut off: it has {} bytes, of which {} were "
                    "read; a stream must only grow",
                    path_, file.st_size, spool->end()));
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  const Result<std::string> bytes = ReadAt(spool->end(), std::min(spool->end() + kMost, size));
  DSLIDE_RETURN_IF_ERROR(bytes);
  if (bytes->empty()) {
    if (kind_ == Kind::kWholeFile) return Got::kEnd;
    DSLIDE_RETURN_IF_ERROR(CheckSameFile());
    return Got::kNothing;
  }
  DSLIDE_RETURN_IF_ERROR(spool->Append(*bytes));
  return Got::kBytes;
}

// Whether the path still names the file that is open.
Status StreamSource::CheckSameFile() const {
  struct stat open_one, named;
  if (fstat(fd_, &open_one) != 0) return Cannot(path_, "read");
  if (stat(path_.c_str(), &named) == 0 && named.st_ino == open_one.st_ino &&
      named.st_dev == open_one.st_dev) {
    return {};
  }
  return BadInput(
      fmt::format("train.data = {}: was replaced or removed; a stream must only grow", path_));
}

void StreamSource::WaitForOrders(int wake) {
  pollfd ready{wake, POLLIN, 0};
  (void)poll(&ready, 1, -1);
}

void StreamSource::Wait(int wake, int timeout_ms) {
  constexpr int kPollFileMs = 1000;  // where inotify is not to be had, or the file is on a network
  pollfd ready[2] = {{wake, POLLIN, 0}, {watch_, POLLIN, 0}};
  if (kind_ == Kind::kPipe) ready[1] = {fd_, POLLIN, 0};
  if (kind_ == Kind::kGrowingFile) {
    timeout_ms = timeout_ms < 0 ? kPollFileMs : std::min(timeout_ms, kPollFileMs);
  }
  (void)poll(ready, 2, timeout_ms);
  if (watch_ < 0 || ready[1].revents == 0) return;
  std::array<char, 4096> events;
  while (read(watch_, events.data(), events.size()) > 0) {
  }
}

}  // namespace dslide
