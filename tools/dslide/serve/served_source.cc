#include "tools/dslide/serve/served_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <exception>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"

namespace dslide {

namespace {

std::string VersionOf(const struct stat& status) {
  return fmt::format("{} {} {}.{:09}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

}  // namespace

// Identifies the file, or the newest checkpoint's manifest and the ranking beside it. Empty if
// nothing is there.
std::string ServedSource::Identity() const {
  struct stat status = {};
  if (stat(path_.c_str(), &status) != 0) return "";
  std::string file = path_, ranking;
  if (S_ISDIR(status.st_mode)) {
    const Result<std::string> checkpoint = FindCheckpoint(path_);
    if (!checkpoint.ok()) return "";
    file = *checkpoint + "/" + kManifestName;
    for (const char* name : {kRankingName, kRerankerName}) {
      struct stat beside = {};
      const std::string path = fmt::format("{}/{}", DirectoryOfCheckpoint(*checkpoint), name);
      if (stat(path.c_str(), &beside) == 0) ranking += VersionOf(beside);
    }
    if (stat(file.c_str(), &status) != 0) return "";
  }
  return fmt::format("{} {} {}", file, VersionOf(status), ranking);
}

Result<std::shared_ptr<const Model>> ServedSource::Load(int64_t now_ms) {
  seen_ = Identity();
  Result<std::shared_ptr<const Model>> model = [&]() -> Result<std::shared_ptr<const Model>> {
    try {
      return loader_(path_, options_);
    } catch (const std::exception& error) {
      return Failed(fmt::format("{}: cannot be loaded: {}", path_, error.what()));
    }
  }();
  failed_ms_ = model.ok() ? std::nullopt : std::optional(now_ms);
  return model;
}

bool ServedSource::IsToLoad(int64_t now_ms) const {
  const std::string now = Identity();
  if (now.empty()) return false;
  return now != seen_ || (failed_ms_ && now_ms - *failed_ms_ >= kRetryMs);
}

}  // namespace dslide
