// The state of an executor besides its rows, as a checkpoint has it: with both the executor goes on
// exactly where it was. Stored as a FlatBuffer, schema/executor_record.fbs; this is the only
// interface to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "server/executor/batches/applied_batches.h"
#include "server/model/lsh/live_tables.h"

namespace dslide {

constexpr uint32_t kExecutorRecordFormat = 1;

struct ExecutorRecord {
  std::vector<SlotId> slots;          // SlotMap::Layout(): as they lie in memory
  std::optional<uint64_t> committed;  // steps; synchronous training
  std::optional<HashPosition> hash;   // none without hash tables
  HashChoice hashing;                 // k = 0: that of the configuration
  std::vector<AppliedBatches::Group> applied;

  std::string Encode() const;
  // Errors (kBadInput) say whether it is damaged or of another format. Every slot of a decoded
  // record is in one group. Whether it fits the model is for the caller to check.
  static Result<ExecutorRecord> Decode(std::string_view bytes);
};

}  // namespace dslide
