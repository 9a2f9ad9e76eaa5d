#include "common/data/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "common/data/output_file.h"

namespace dslide {

Result<ScratchFile> ScratchFile::Beside(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path directory = IsWrittenInPlace(path) ? fs::temp_directory_path(ignored)
                                                    : fs::absolute(path, ignored).parent_path();
  std::string name = directory / "dslide-XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return BadInput(fmt::format("{}: cannot create a temporary file: {}", directory.string(),
                                std::strerror(errno)));
  }
  unlink(name.c_str());
  return ScratchFile(directory, fdopen(descriptor, "w+"));
}

void ScratchFile::Check(bool done) {
  if (!done && error_ == 0) error_ = errno;
}

void ScratchFile::Write(std::string_view bytes) {
  size_ += bytes.size();
  Check(std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size());
}

void ScratchFile::Overwrite(uint64_t at, std::string_view bytes) {
  Check(fseeko(file_.get(), static_cast<off_t>(at), SEEK_SET) == 0 &&
        std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size() &&
        fseeko(file_.get(), 0, SEEK_END) == 0);
}

Result<std::FILE*> ScratchFile::Release() && {
  Check(std::fflush(file_.get()) == 0);
  if (error_ != 0) return Failure();
  std::rewind(file_.get());
  return file_.release();
}

Error ScratchFile::Failure() const {
  return Failed(
      fmt::format("{}: cannot keep temporary data: {}", directory_, std::strerror(error_)));
}

Status ScratchFile::ReadAll(const std::function<void(std::string_view)>& take) {
  Check(std::fflush(file_.get()) == 0);
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
