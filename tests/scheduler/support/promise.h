// What a run promises of its data: every batch counts once, and every sample is in one batch of an
// epoch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

struct Promise {
  static constexpr uint32_t kSamples = 50, kBatches = 13;  // of an epoch

  // A worker has leased a training batch.
  void Leased(uint64_t worker, const BatchId& id, const LeaseBatch& batch);
  // An entry is in the ledger.
  void Logged(const LedgerEntry& entry);
  // Checks that the batches of `epochs` epochs count, each once, with each sample once an epoch.
  void CheckAllCountedOnce(size_t epochs) const;

  std::map<BatchId, int> counted;                    // training batches that count
  std::map<BatchId, std::vector<uint32_t>> content;  // samples of training batches
  std::set<std::pair<uint64_t, BatchId>> again;      // leased to a worker after somebody else
};

}  // namespace dslide
