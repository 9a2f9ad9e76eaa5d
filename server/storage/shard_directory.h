// The directories of a checkpoint on a server's disk: names, age, removal.
//
//   DIRECTORY/                         checkpoint.directory
//     store-<server>-<incarnation>/    a server's live database (checkpoint_store.h)
//     step-000000001412/               one checkpoint (common/checkpoint/manifest.h)
//       shard-<plan version>-<index>/  one server's part
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// The parent directory of a path.
std::string ParentOf(const std::string& path);

std::string ShardName(uint32_t plan_version, uint32_t server_index);
// Nullopt: not a shard's name.
std::optional<uint32_t> PlanVersionOfShard(const std::string& name);

// `life`: a server's name, '-' and its incarnation in 16 hexadecimal digits. Characters that do not
// belong in a file name are written as %XX.
std::string StoreName(const std::string& life);

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
