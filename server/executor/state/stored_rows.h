// Rows between an executor and a store of checkpoints, whatever the store is.
//
// A checkpoint holds rows by key, and one record an executor. Keys do not depend on the number of
// servers: see common/run/slot_rows.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "server/rows/layer.h"

namespace dslide {

struct StoredRowKey {
  LayerKind layer;
  SlotId slot;
  uint32_t row;  // within the slot
  auto operator<=>(const StoredRowKey&) const = default;
};

// Rows in ascending order of their keys; row i has the bytes [ends[i-1], ends[i]) of `bytes`.
struct RowChunk {
  bool early = false;  // rows before their turn: see SnapshotSink::Put()
  std::vector<StoredRowKey> keys;
  std::vector<size_t> ends;
  std::vector<uint8_t> bytes;
};

// Where an executor's snapshot goes. Called by the executors' threads.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  // Whether a chunk can be taken now without waiting. If not, the executor goes on with its other
  // work and asks again.
  virtual bool HasRoom(uint32_t executor) = 0;
  // Returns when there is room, or after that time.
  virtual void AwaitRoom(uint32_t executor, uint32_t most_ms) = 0;
  // Of one executor, chunks come in ascending order of their keys. Early chunks come between them
  // in an order of their own, which begins anew from time to time. Each row comes once.
  virtual void Put(uint32_t executor, RowChunk chunk) = 0;
  // The executor has put all its rows. Its record has the rest of its state (ExecutorRecord).
  virtual void Finish(uint32_t executor, std::string record) = 0;
};

}  // namespace dslide
