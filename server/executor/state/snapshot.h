// Writes an executor's changed rows, as they were at the mark, to a sink: slice by slice, between
// the executor's other work.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  // The rows count as changed again, also those of a finished snapshot. No other call may follow.
  void Abort();

 private:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  bool WriteRow();
  void PutChunk();

  SnapshotSink& sink_;
  uint32_t number_;
  std::string record_;
  Layer& input_;
  Layer& output_;
  const LiveTables* tables_;   // null: none
  BuiltCodes built_;           // the tables at the mark
  std::vector<SlotId> slots_;  // attached at the mark, ascending
  // The next row to write: `next_` or a later one of slot number `slot_` in `layer_`.
  Layer* layer_;
  size_t slot_ = 0;
  uint32_t next_ = 0;
  RowChunk chunk_;
  bool finished_ = false;
};

}  // namespace dslide
