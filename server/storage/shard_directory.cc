#include "server/storage/shard_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Whether all shards in a checkpoint's directory are of plans up to `plan_version`.
bool OfPlansUpTo(const fs::path& checkpoint, uint32_t plan_version) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoint, error)) {
    const auto version = PlanVersionOfShard(entry.path().filename());
    if (version && *version > plan_version) return false;
  }
  return !error;
}

// Whether another process has the database open, by RocksDB's lock on it.
bool IsOpenElsewhere(const fs::path& store) {
  const int fd = open((store / "LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return locked;
}

}  // namespace

void RemoveOldStores(const std::string& directory, const std::string& life) {
  const std::string own = StoreName(life);
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (IsStoreOfOtherLife(entry.path().filename(), own)) old.push_back(entry.path());
  }
  for (const fs::path& path : old) {
    if (!IsOpenElsewhere(path)) fs::remove_all(path, error);
  }
}

void PruneShards(const std::string& directory, const std::string& present,
                 const std::vector<std::string>& keep, uint32_t plan_version,
                 const std::string& spare) {
  std::error_code error;
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (IsCheckpointName(name) && name < present &&
        std::find(keep.begin(), keep.end(), name) == keep.end() &&
        OfPlansUpTo(entry.path(), plan_version) && fs::path(spare).parent_path() != entry.path()) {
      doomed.push_back(entry.path());
    }
  }
  for (const fs::path& path : doomed) RemoveCheckpoint(path);
}

Status SyncPath(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (synced) return {};
  return Failed(
      fmt::format("{}: cannot sync: {}; check that disk; the last complete checkpoint "
                  "stays",
                  path, std::strerror(error)));
}

}  // namespace dslide
