#include "common/checkpoint/disk_use.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/checkpoint/manifest.h"

namespace dslide {

namespace fs = std::filesystem;

uint64_t BytesUnder(const std::vector<std::string>& directories) {
  uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& directory : directories) {
    std::error_code error;
    fs::recursive_directory_iterator at(directory, error);
    for (; !error && at != fs::end(at); at.increment(error)) {
      struct stat file;
      if (lstat(at->path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
      if (seen.emplace(file.st_dev, file.st_ino).second)
        bytes += static_cast<uint64_t>(file.st_size);
    }
  }
  return bytes;
}

CheckpointRoom MakeRoom(const std::vector<std::string>& roots, const std::string& checkpoints,
                        uint64_t quota_bytes, uint64_t first_bytes,
                        const std::vector<std::string>& held) {
  CheckpointRoom room;
  room.kept = CompleteCheckpoints(checkpoints);
  std::vector<std::string>& complete = room.kept;
  room.next_bytes =
      complete.empty() ? first_bytes : BytesUnder({checkpoints + "/" + complete.back()});
  const auto measure = [&] {
    room.used_bytes = BytesUnder(roots);
    room.fits = room.used_bytes + room.next_bytes <= quota_bytes;
  };
  measure();
  for (size_t i = 0; !room.fits && i + 1 < complete.size();) {
    if (std::ranges::count(held, complete[i]) > 0) {
      ++i;
      continue;
    }
    RemoveCheckpoint(checkpoints + "/" + complete[i]);
    room.removed++;
    complete.erase(complete.begin() + static_cast<std::ptrdiff_t>(i));
    measure();
  }
  return room;
}

}  // namespace dslide
