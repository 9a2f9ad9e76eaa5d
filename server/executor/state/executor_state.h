// An executor's state on its way to a checkpoint, and from one.
//
// To a checkpoint: BeginSnapshot() marks what the executor holds; AdvanceSnapshot() writes it,
// slice by slice. The first snapshot has all rows, a later one those that changed since the one
// before. From a checkpoint: LoadRow() each row once, in any order, then FinishLoad().
//
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "server/executor/batches/applied_batches.h"
#include "server/executor/state/executor_record.h"
#include "server/executor/state/snapshot.h"
#include "server/executor/state/stored_rows.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

class ExecutorState {
 public:
  // What an executor is besides its rows.
  struct Position {
    AppliedBatches applied;
    std::optional<uint64_t> committed;  // steps; synchronous training
  };

  // All must outlive this.
  ExecutorState(const Config& config, InputLayer* input, OutputLayer* output);

  // The record of an executor at this moment.
  ExecutorRecord Record(std::optional<uint64_t> committed, const AppliedBatches& applied) const;

  // The mark. A snapshot in progress is aborted. `sink` must outlive the snapshot.
  void BeginSnapshot(SnapshotSink* sink, uint32_t number, std::string record);
  // Writes at most `rows` rows. False: no snapshot is in progress, or the sink has no room.
  bool AdvanceSnapshot(uint32_t rows);
  bool snapshot_in_progress() const { return snapshot_ && !snapshot_->finished(); }
  // See Snapshot::lags(); while it does, AwaitRoom() waits for the sink, at most that long.
  bool snapshot_lags() const { return snapshot_ && snapshot_->lags(); }
  void AwaitRoom(uint32_t most_ms) { snapshot_->AwaitRoom(most_ms); }
  // Gives the last snapshot up, in progress or finished: its rows count as changed again.
  void AbortSnapshot();
  // The next snapshot has all rows. Gives up one in progress.
  void ForgetStored();
  // After FinishLoad(): the next snapshot has only rows that change from now on.
  void AssumeStored();

  // Errors (kBadInput) name the slot and the row, or what is wrong with the records; the executor
  // is then of no use.
  Status LoadRow(const StoredRowKey& key, std::span<const uint8_t> value);
  // `records`: of all executors that wrote the rows, encoded; more do no harm. If one of them had
  // the same slots in the same order, the executor goes on as that one. Otherwise the upkeep of
  // hash tables begins again.
  Result<Position> FinishLoad(std::span<const std::string> records);
  // The same for inference, which uses of the records only the tables' hash functions.
  Status FinishLoadForInference(std::span<const std::string> records);

 private:
  Result<Position> TakePosition(std::span<const ExecutorRecord> records) const;
  Status FinishIndex(std::span<const ExecutorRecord> records, const ExecutorRecord* own);

  const Config& config_;
  InputLayer& input_;
  OutputLayer& output_;
  std::optional<Snapshot> snapshot_;  // in progress, or the last one
};

}  // namespace dslide
