#include "common/data/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
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

}  // namespace

Result<OutputFile> OutputFile::Create(const std::string& path) {
  if (path.empty()) return OutputFile("", "", nullptr);
  if (IsStandardOutput(path)) return StandardOutput();
  const bool in_place = IsWrittenInPlace(path);
  const std::string temporary = in_place ? "" : path + ".tmp";
  std::FILE* out = std::fopen((in_place ? path : temporary).c_str(), "we");
  if (out == nullptr) return CannotCreate(path);
  return OutputFile(path, temporary, out);
}

Result<OutputFile> OutputFile::CreateSecret(const std::string& path) {
  DSLIDE_RETURN_IF_ERROR(CheckRegularOutput(path, "a secret"));
  const std::string temporary = path + ".tmp";
  // Not a file that was put there for it, nor what a link points to.
  (void)unlink(temporary.c_str());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      S_IRUSR | S_IWUSR);
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
  std::fclose(out_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());  // incomplete
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
  Check((out == stdout ? std::fflush(out) : std::fclose(out)) == 0);
  if (error_ == 0 && !temporary_.empty()) {
    Check(std::rename(temporary_.c_str(), path_.c_str()) == 0);
  }
  if (error_ == 0) return {};
  if (!temporary_.empty()) std::remove(temporary_.c_str());
  return Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(error_)));
}

Status OutputFile::FinishSynced() {
  if (out_ == nullptr || temporary_.empty()) return Finish();
  Check(std::fflush(out_) == 0 && fsync(fileno(out_)) == 0);
  DSLIDE_RETURN_IF_ERROR(Finish());
  return SyncDirectory(fs::absolute(path_).parent_path());
}

}  // namespace dslide
