// What servers saved when they had lost the scheduler (PROTOCOL section 9).
//
//   DIRECTORY/orphan-<plan version>-<committed steps>/shard-<plan version>-<server index>/
//
// If all servers of the plan that the ledger ends with did so, that is a checkpoint but for its
// manifest: what counts in it is in the ledger, and what is half done is in the shards' records.
#pragma once

#include <string>

#include "common/base/error.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

// Makes a complete checkpoint of such a directory, and removes those of earlier plans. Does nothing
// if there is none, if a server's shard is missing, or if in synchronous training its steps are not
// of the ledger's epoch. `ledger` is of a run whose servers may hold its state (live).
Status AdoptOrphans(const LedgerState& ledger, const std::string& directory);

}  // namespace dslide
