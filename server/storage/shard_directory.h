// What a server removes and syncs in the directory of checkpoints
// (common/checkpoint/layout.h has the names).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Removes the stores of the same server's other lives in `directory`, except those that a process
// has open: two servers may have been started under one name.
void RemoveOldStores(const std::string& directory, const std::string& life);

// Removes from `directory` the checkpoints before `present` that are not in `keep` and have no
// shard of a plan later than `plan_version`, so that a server that was suspended for long removes
// nothing written meanwhile. The checkpoint with the shard directory `spare` stays.
void PruneShards(const std::string& directory, const std::string& present,
                 const std::vector<std::string>& keep, uint32_t plan_version,
                 const std::string& spare);

// Makes the names in a directory, or the content of a file, durable.
Status SyncPath(const std::string& path);

}  // namespace dslide
