#include "tools/dslide/serve/served_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/checkpoint/manifest.h"

namespace dslide {

// Empty: nothing is there.
std::string ServedSource::Identity() const {
  struct stat status = {};
  if (stat(path_.c_str(), &status) != 0) return "";
  if (S_ISDIR(status.st_mode)) {
    const Result<std::string> checkpoint = FindCheckpoint(path_);
    return checkpoint.ok() ? *checkpoint : "";
  }
  return fmt::format("{} {} {}.{:09}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

Result<std::shared_ptr<const Model>> ServedSource::Load() {
  loaded_ = Identity();
  return LoadModel(path_, options_);
}

bool ServedSource::HasChanged() const {
  const std::string now = Identity();
  return !now.empty() && now != loaded_;
}

}  // namespace dslide
