#include "tools/dslide/model/output_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dslide {

bool AreOneFile(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;  // /dev/null, say
  return fs::weakly_canonical(fs::absolute(a, error), error) ==
         fs::weakly_canonical(fs::absolute(b, error), error);
}

Result<OutputFile> OutputFile::Create(const std::string& path) {
  if (path.empty()) return OutputFile("", "", nullptr);
  std::error_code error;
  const bool in_place =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string temporary = in_place ? "" : path + ".tmp";
  std::FILE* out = std::fopen((in_place ? path : temporary).c_str(), "w");
  if (out == nullptr) {
    return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  }
  return OutputFile(path, temporary, out);
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

void OutputFile::Write(std::string_view text) {
  if (out_ == nullptr) return;
  if (std::fwrite(text.data(), 1, text.size(), out_) < text.size() && error_ == 0) error_ = errno;
}

Status OutputFile::Finish() {
  if (out_ == nullptr) return {};
  std::FILE* out = std::exchange(out_, nullptr);
  const auto check = [this](int result) {
    if (result != 0 && error_ == 0) error_ = errno;
  };
  check(out == stdout ? std::fflush(out) : std::fclose(out));
  if (error_ == 0 && !temporary_.empty()) check(std::rename(temporary_.c_str(), path_.c_str()));
  if (error_ == 0) return {};
  if (!temporary_.empty()) std::remove(temporary_.c_str());
  return Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(error_)));
}

}  // namespace dslide
