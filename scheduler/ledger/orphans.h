// The shards that servers saved after they lost the scheduler (PROTOCOL section 9).
//
//   DIRECTORY/orphan-<plan version>-<committed steps>/shard-<plan version>-<server index>/
//
// If all servers of the ledger's last plan did so, the shards form a checkpoint that lacks only its
// manifest: the ledger says which batches count, and the shards' records contain the half-applied
// ones.
#pragma once

#include <string>

#include "common/base/error.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

// Makes such a directory a complete checkpoint, and removes those of earlier plans. Does nothing if
// there is none, if a server's shard is missing, or if in synchronous training the directory's
// steps are not of the ledger's epoch. REQUIRES ledger.live.
Status AdoptOrphans(const LedgerState& ledger, const std::string& directory, uint64_t preprocessor);

}  // namespace dslide
