#include "common/data/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/data/whole_file.h"

namespace dslide {

namespace fs = std::filesystem;

bool AreOneFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;  // /dev/null, say
  return fs::weakly_canonical(fs::absolute(a, error), error) ==
         fs::weakly_canonical(fs::absolute(b, error), error);
}

bool IsStandardOutput(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1";
}

bool IsWrittenInPlace(const std::string& path) {
  if (IsStandardOutput(path)) return true;
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

Status CheckRegularOutput(const std::string& path, std::string_view what) {
  if (!IsWrittenInPlace(path)) return {};
  return BadInput(fmt::format("{}: is no regular file ({} cannot be written to it)", path, what));
}

namespace {

Error CannotCreate(const std::string& path) {
  return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
}

// Opens PATH.tmp, or PATH.1.tmp and so on while other writers have those. A writer has its file
// locked, so that what a killed one has left is used again. Below 0: errno.
int OpenTemporary(const std::string& path, std::string* name) {
  constexpr int kMostWriters = 1000;
  for (int n = 0; n < kMostWriters; ++n) {
    *name = n == 0 ? path + ".tmp" : fmt::format("{}.{}.tmp", path, n);
    const int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return fd;
    const bool others = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    // Whoever had the lock before may have renamed the file.
    struct stat opened = {}, named = {};
    const bool is_named = fstat(fd, &opened) == 0 && stat(name->c_str(), &named) == 0 &&
                          opened.st_ino == named.st_ino;
    if (!others && is_named && ftruncate(fd, 0) == 0) return fd;
    close(fd);
  }
  errno = EBUSY;
  return -1;
}

}  // namespace

Result<OutputFile> OutputFile::Create(const std::string& path) {
  if (path.empty()) return OutputFile("", "", nullptr);
  if (IsStandardOutput(path)) return StandardOutput();
  std::string temporary;
  const int fd = IsWrittenInPlace(path) ? open(path.c_str(), O_WRONLY | O_CLOEXEC)
                                        : OpenTemporary(path, &temporary);
  std::FILE* out = fd < 0 ? nullptr : fdopen(fd, "w");
  if (out == nullptr) return CannotCreate(path);
  return OutputFile(path, temporary, out);
}

Result<OutputFile> OutputFile::CreateSecret(const std::string& path) {
  DSLIDE_RETURN_IF_ERROR(CheckRegularOutput(path, "a secret"));
  // Not a file that was put there for it, nor what a link points to.
  std::string temporary = path + ".XXXXXX.tmp";
  const int fd = mkostemps(temporary.data(), sizeof ".tmp" - 1, O_CLOEXEC);
  std::FILE* out = fd < 0 ? nullptr : fdopen(fd, "w");
  if (out == nullptr) return CannotCreate(path);
  OutputFile file(path, temporary, out);
  if (geteuid() != 0) return file;
  struct stat owner = {};
  if (stat(path.c_str(), &owner) != 0 &&
      stat(fs::absolute(path).parent_path().c_str(), &owner) != 0) {
    return CannotCreate(path);
  }
  if (owner.st_uid != 0 && fchown(fd, owner.st_uid, owner.st_gid) != 0) return CannotCreate(path);
  return file;
}

OutputFile OutputFile::StandardOutput() { return {"standard output", "", stdout}; }

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      out_(std::exchange(other.out_, nullptr)),
      error_(other.error_) {}

OutputFile::~OutputFile() {
  if (out_ == nullptr || out_ == stdout) return;
  if (!temporary_.empty()) std::remove(temporary_.c_str());  // incomplete
  std::fclose(out_);
}

void OutputFile::Check(bool done) {
  if (!done && error_ == 0) error_ = errno;
}

void OutputFile::Write(std::string_view bytes) {
  if (out_ == nullptr || error_ != 0) return;
  Check(std::fwrite(bytes.data(), 1, bytes.size(), out_) == bytes.size());
}

Status OutputFile::Finish() {
  if (out_ == nullptr) return {};
  std::FILE* out = std::exchange(out_, nullptr);
  const int lock = temporary_.empty() ? -1 : dup(fileno(out));  // until the file has its name
  Check((out == stdout ? std::fflush(out) : std::fclose(out)) == 0);
  if (error_ == 0 && !temporary_.empty()) {
    Check(std::rename(temporary_.c_str(), path_.c_str()) == 0);
  }
  if (error_ != 0 && !temporary_.empty()) std::remove(temporary_.c_str());
  if (lock >= 0) close(lock);
  if (error_ == 0) return {};
  return Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(error_)));
}

Status OutputFile::FinishSynced() {
  if (out_ == nullptr || temporary_.empty()) return Finish();
  Check(std::fflush(out_) == 0 && fsync(fileno(out_)) == 0);
  DSLIDE_RETURN_IF_ERROR(Finish());
  return SyncDirectory(fs::absolute(path_).parent_path());
}

}  // namespace dslide
