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

}  // namespace

Result<StreamSource> StreamSource::Open(const std::string& path) {
  struct stat file;
  if (path == "-") {
    if (isatty(STDIN_FILENO) == 1) {
      return BadInput("train.data = -: standard input is a terminal; pipe a stream to it");
    }
    if (fstat(STDIN_FILENO, &file) != 0) return Cannot(path, "read");
    const Kind kind = S_ISFIFO(file.st_mode)  ? Kind::kPipe
                      : S_ISREG(file.st_mode) ? Kind::kWholeFile
                                              : Kind::kOther;
    return StreamSource(path, kind, STDIN_FILENO);
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
  if (kind_ == Kind::kWholeFile || kind_ == Kind::kGrowingFile) return FetchFromFile(spool);
  if (kind_ == Kind::kPipe) {
    const auto moved = spool->Splice(fd_, kMost);
    DSLIDE_RETURN_IF_ERROR(moved);
    if (!moved->has_value()) return Got::kNothing;
    return **moved > 0 ? Got::kBytes : Got::kEnd;
  }
  pollfd ready{fd_, POLLIN, 0};
  if (poll(&ready, 1, 0) == 0) return Got::kNothing;
  std::string bytes(kMost, '\0');
  const ssize_t got = read(fd_, bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Got::kNothing;
  if (got < 0) return Cannot(path_, "read");
  if (got == 0) return Got::kEnd;
  DSLIDE_RETURN_IF_ERROR(spool->Append({bytes.data(), static_cast<size_t>(got)}));
  return Got::kBytes;
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
  std::string bytes(std::min<uint64_t>(kMost, static_cast<uint64_t>(file.st_size) - spool->end()),
                    '\0');
  const ssize_t got = pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(spool->end()));
  if (got < 0) return Cannot(path_, "read");
  if (got == 0) {
    if (kind_ == Kind::kWholeFile) return Got::kEnd;
    DSLIDE_RETURN_IF_ERROR(CheckSameFile());
    return Got::kNothing;
  }
  DSLIDE_RETURN_IF_ERROR(spool->Append({bytes.data(), static_cast<size_t>(got)}));
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
  if (kind_ == Kind::kPipe || kind_ == Kind::kOther) ready[1] = {fd_, POLLIN, 0};
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
