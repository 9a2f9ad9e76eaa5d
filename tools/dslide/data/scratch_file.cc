#include "tools/dslide/data/scratch_file.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace dslide {

Result<ScratchFile> ScratchFile::Beside(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool in_place = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  const std::string directory = in_place ? fs::temp_directory_path(ignored).string()
                                         : fs::absolute(path, ignored).parent_path().string();
  std::string name = directory + "/dslide-XXXXXX";
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) {
    return Failed(
        fmt::format("{}: cannot create a temporary file: {}", directory, std::strerror(errno)));
  }
  unlink(name.c_str());
  return ScratchFile(directory, fdopen(descriptor, "w+"));
}

void ScratchFile::Write(std::string_view bytes) {
  size_ += bytes.size();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) < bytes.size() && error_ == 0) {
    error_ = errno;
  }
}

Result<std::FILE*> ScratchFile::Release() && {
  if (std::fflush(file_.get()) != 0 && error_ == 0) error_ = errno;
  if (error_ != 0) return Failure();
  std::rewind(file_.get());
  return file_.release();
}

Error ScratchFile::Failure() const {
  return Failed(
      fmt::format("{}: cannot keep temporary data: {}", directory_, std::strerror(error_)));
}

Status ScratchFile::ReadAll(const std::function<void(std::string_view)>& take) {
  if (std::fflush(file_.get()) != 0 && error_ == 0) error_ = errno;
  std::rewind(file_.get());
  std::vector<char> part(size_t{1} << 20);
  uint64_t left = error_ == 0 ? size_ : 0;
  while (left > 0) {
    const size_t count = std::fread(part.data(), 1, part.size(), file_.get());
    if (count == 0) {
      error_ = errno != 0 ? errno : EIO;
      break;
    }
    take({part.data(), count});
    left -= count;
  }
  if (error_ == 0) return {};
  return Failure();
}

}  // namespace dslide
