#include "tools/dslide/doctor/disk.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/process.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{1} << 20;
constexpr int kPieces = 32;
constexpr int64_t kMostMs = 500;
constexpr int kSyncs = 8;
constexpr uint64_t kLittleSpace = uint64_t{1} << 30;
constexpr double kSlowMib = 20;  // a second
constexpr double kSlowSyncMs = 50;

// The directory, or the nearest one above that exists.
fs::path Existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error).lexically_normal();
  while (!path.empty() && path.has_relative_path() && !fs::exists(path, error)) {
    path = path.parent_path();
  }
  return path;
}

// A file without a name, so that a signal leaves nothing behind.
class Scratch {
 public:
  explicit Scratch(const fs::path& directory) {
    const fs::path path = directory / fmt::format(".dslide-doctor-{}", getpid());
    fd_ = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd_ >= 0) unlink(path.c_str());
  }
  ~Scratch() {
    if (fd_ >= 0) close(fd_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Speed {
  double mib_per_s = 0;
  double sync_ms = 0;  // the median
};

// False: errno says why.
bool Measure(int fd, Speed* speed) {
  const std::vector<char> piece(kPiece, 'x');
  const int64_t began = MonotonicMicros();
  int written = 0;
  while (written < kPieces && MonotonicMicros() - began < 1000 * kMostMs) {
    const ssize_t took = write(fd, piece.data(), piece.size());
    if (took >= 0 && took < static_cast<ssize_t>(kPiece)) errno = ENOSPC;
    if (took < static_cast<ssize_t>(kPiece)) return false;
    written++;
  }
  if (fdatasync(fd) != 0) return false;
  speed->mib_per_s = written / (static_cast<double>(MonotonicMicros() - began) / 1e6);
  std::vector<double> syncs;
  for (int i = 0; i < kSyncs; ++i) {
    const int64_t at = MonotonicMicros();
    if (pwrite(fd, piece.data(), 4096, 0) != 4096 || fsync(fd) != 0) return false;
    syncs.push_back(static_cast<double>(MonotonicMicros() - at) / 1000);
  }
  std::ranges::nth_element(syncs, syncs.begin() + kSyncs / 2);
  speed->sync_ms = syncs[kSyncs / 2];
  return true;
}

}  // namespace

void CheckDisk(const std::string& directory, Findings* findings) {
  const fs::path place = Existing(directory);
  const std::string check = fmt::format("disk of {}", directory);
  const Scratch scratch(place);
  if (scratch.fd() < 0) {
    const int why = errno;
    return findings->Problem(
        check, fmt::format("{}: cannot write: {}", place.string(), std::strerror(why)),
        why == EROFS    ? "it is mounted read-only: mount it otherwise, or name another directory"
        : why == EACCES ? "give this user the right to write there, or name another directory"
                        : "name another directory (--run-dir, checkpoint.directory)");
  }
  std::error_code error;
  const fs::space_info space = fs::space(place, error);
  Speed speed;
  if (!Measure(scratch.fd(), &speed)) {
    const int why = errno;
    return findings->Problem(check, fmt::format("{}: {}", place.string(), std::strerror(why)),
                             why == ENOSPC || why == EDQUOT
                                 ? "make room, or name another directory"
                                 : "name another directory (--run-dir, checkpoint.directory)");
  }
  const std::string text =
      fmt::format("{:.1f} GiB free, writes {:.0f} MiB/s, fsync {:.1f} ms",
                  static_cast<double>(space.available) / (1 << 30), speed.mib_per_s, speed.sync_ms);
  if (space.available < kLittleSpace) {
    findings->Note(check, text,
                   "a checkpoint takes as much as the model, and two are kept: make room, or name "
                   "another directory");
  } else if (speed.mib_per_s < kSlowMib || speed.sync_ms > kSlowSyncMs) {
    findings->Note(check, text,
                   "slow: the ledger and checkpoints wait for it; use a local disk, or raise "
                   "checkpoint.interval_s");
  } else {
    findings->Fine(check, text);
  }
}

}  // namespace dslide
