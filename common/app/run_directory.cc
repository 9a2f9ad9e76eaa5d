#include "common/app/run_directory.h"

#include <fmt/core.h>

#include <filesystem>

namespace dslide {
namespace {

namespace fs = std::filesystem;

// The directory that `path` lies in, which "a/" does not have as its last part.
fs::path ParentOf(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).parent_path();
}

}  // namespace

Status CheckRunDirectory(const std::string& path) {
  std::error_code error;
  const fs::path parent = ParentOf(path);
  if (fs::exists(path, error) || fs::exists(parent, error)) return {};
  if (parent.filename() == "runs" && fs::exists(parent.parent_path(), error)) return {};
  return BadInput(fmt::format("--run-dir {}: there is no directory {}; make it, or name another",
                              path, parent.string()));
}

}  // namespace dslide
