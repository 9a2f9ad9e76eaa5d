// What files take on the disk, and how checkpoints are kept within a limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dslide {

// What the files under directories take, those with several names (checkpoints share files) once.
uint64_t BytesUnder(const std::vector<std::string>& directories);

// What the room for another checkpoint comes to.
struct CheckpointRoom {
  bool fits = true;
  size_t removed = 0;             // complete checkpoints that have gone
  std::vector<std::string> kept;  // names of those that are there now, oldest first
  uint64_t used_bytes = 0;        // by all files under the roots
  uint64_t next_bytes = 0;        // that the next checkpoint may take
};
// Makes room in `checkpoints` for one more, so that all under `roots` stays below `quota_bytes`:
// removes the oldest complete ones, never the newest, nor those named in `held`. The next one
// is expected to take what the newest takes on this machine, or `first_bytes` if there is none.
CheckpointRoom MakeRoom(const std::vector<std::string>& roots, const std::string& checkpoints,
                        uint64_t quota_bytes, uint64_t first_bytes,
                        const std::vector<std::string>& held);

}  // namespace dslide
