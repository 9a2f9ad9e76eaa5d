// Writes an executor's changed rows, as they were at the mark, to a sink: slice by slice, between
// the executor's other work.
//
// Rows are written in the order of their keys. Rows that training changes before their turn are
// copied (ChangedRows); when the copies of a layer take more than MostAsideBytes(), they are
// written at once, in early chunks. If the sink cannot follow, lags() tells that batches should
// wait. Owned by one executor thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/executor/state/stored_rows.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

class Snapshot {
 public:
  // The mark. `number`: the executor's for the sink; `record`: its ExecutorRecord at this moment,
  // encoded. The layers and the sink must outlive the snapshot.
  Snapshot(SnapshotSink* sink, uint32_t number, std::string record, InputLayer* input,
           OutputLayer* output);

  static constexpr uint32_t kSliceRows = 1024;  // some 2 ms, by the misses of their codes

  // One slice of the work, of at most `rows` rows. False: the sink has no room.
  bool Advance(uint32_t rows = kSliceRows);
  // Everything is with the sink.
  bool finished() const { return finished_; }
  // Whether copies of rows take twice what they may.
  bool lags() const;
  void AwaitRoom(uint32_t most_ms) { sink_.AwaitRoom(number_, most_ms); }
  // The rows count as changed again, also those of a finished snapshot. No other call may follow.
  void Abort();

 private:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  // What copies of a layer's rows may take: a sixteenth of the layer, within bounds.
  static size_t MostAsideBytes(const Layer& layer);

  bool WriteRow();
  void BeginEarly(Layer* layer);
  void WriteEarly(uint32_t rows);
  void Complete(Layer* layer, uint32_t row, RowChunk* chunk);
  void PutChunk();

  SnapshotSink& sink_;
  uint32_t number_;
  std::string record_;
  Layer& input_;
  Layer& output_;
  const NeuronIndex* index_;   // null: the model has no index
  BuiltCodes built_;           // by the index at the mark
  std::vector<SlotId> slots_;  // attached at the mark, ascending
  // The next row to write: `next_` or a later one of slot number `slot_` in `layer_`.
  Layer* layer_;
  size_t slot_ = 0;
  uint32_t next_ = 0;
  RowChunk chunk_;
  // Copies that are being written early, by their keys, the first one last.
  Layer* early_layer_ = nullptr;
  std::vector<StoredRowKey> early_;
  bool finished_ = false;
};

}  // namespace dslide
