// The directories of a checkpoint on a server's disk: names, age, removal.
//
//   DIRECTORY/                              checkpoint.directory
//     store-<server>-<incarnation>/         a server's live database
//     (server/storage/checkpoint_store.h) step-000000001412/                    one checkpoint
//     (common/checkpoint/manifest.h)
//       shard-<plan version>-<index>/       one server's part
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// The directory that a path lies in.
std::string ParentOf(const std::string& path);

std::string ShardName(uint32_t plan_version, uint32_t server_index);
// Nullopt: that is no shard's name.
std::optional<uint32_t> PlanVersionOfShard(const std::string& name);

// `life`: a server's name, '-' and its incarnation in 16 hexadecimal digits. A name may have any
// characters; what no file name should have is written as %XX.
std::string StoreName(const std::string& life);

// Removes the stores of the same server's other lives in `directory`, but those that a process has
// open: two servers may have been started under one name.
void RemoveOldStores(const std::string& directory, const std::string& life);

// Removes what a server of plan `plan_version` may remove in `directory` when it is told to keep
// `keep` and writes `present`: earlier checkpoints that are not kept and have no shards of a later
// plan. A server that has slept for long thus harms nothing that was written meanwhile. The
// directory `spare` stays.
void PruneShards(const std::string& directory, const std::string& present,
                 const std::vector<std::string>& keep, uint32_t plan_version,
                 const std::string& spare);

// Makes the names in a directory, or the content of a file, durable.
Status SyncPath(const std::string& path);

}  // namespace dslide
