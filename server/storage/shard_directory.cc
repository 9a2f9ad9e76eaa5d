#include "server/storage/shard_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "common/checkpoint/manifest.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kShardPrefix[] = "shard-";
constexpr size_t kHexDigits = 16;

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

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string ShardName(uint32_t plan_version, uint32_t server_index) {
  return fmt::format("{}{}-{}", kShardPrefix, plan_version, server_index);
}

std::optional<uint32_t> PlanVersionOfShard(const std::string& name) {
  if (!name.starts_with(kShardPrefix)) return std::nullopt;
  uint32_t version = 0;
  const char* begin = name.data() + std::strlen(kShardPrefix);
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, version);
  uint32_t index = 0;
  if (error != std::errc() || at == end || *at != '-') return std::nullopt;
  const auto [last, index_error] = std::from_chars(at + 1, end, index);
  if (index_error != std::errc() || last != end) return std::nullopt;
  return version;
}

std::string StoreName(const std::string& life) {
  std::string name = "store-";
  for (const char c : life) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-') {
      name += c;
    } else {
      name += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return name;
}

void RemoveOldStores(const std::string& directory, const std::string& life) {
  const std::string own = StoreName(life);
  if (own.size() <= kHexDigits) return;
  const std::string prefix = own.substr(0, own.size() - kHexDigits);
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    // Another server's name may begin with this one's.
    if (name.starts_with(prefix) && name.size() == own.size() && name != own &&
        name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos) {
      old.push_back(entry.path());
    }
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
