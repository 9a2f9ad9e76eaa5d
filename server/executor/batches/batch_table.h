// The batches in flight of one executor: which stage each is at, and who has sent it.
//
// Memory is bounded, whatever workers do: batches that nobody will go on with are given up. These
// are a worker's lowest batch when it has kMaxBatchesOfWorker here, and in asynchronous training
// its batches of an earlier epoch. When there are kMaxBatchesInFlight batches, or more bytes than
// set_most_bytes(), the worker with the most bytes loses its oldest batch: one of those that have
// never ended a batch, and if there are too many batches and no such one has any, another.
//
// Invariants: at most kMaxBatchesInFlight batches, and at most kMaxBatchesOfWorker of a worker.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/config/limits.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

// A batch in flight belongs to the worker life that sent it.
struct BatchKey {
  Incarnation worker;
  BatchId batch;
  auto operator<=>(const BatchKey&) const = default;
};

constexpr size_t kMaxBatchesInFlight = 1024;
constexpr size_t kMaxBatchesOfWorker = 128;
static_assert(kMaxBatchesOfWorker >= kMostOpenRequests);
static_assert(kMaxBatchesOfWorker <= kMaxBatchesInFlight);

// A batch goes through these stages, one request each. Where a server has rows of one layer only,
// its batches skip the stages of the other one.
enum class BatchStage { kEmbedded, kQueried, kPushed };

struct OpenBatch {
  BatchStage stage = BatchStage::kEmbedded;
  bool alone = false;  // without the requests of the other layer
  uint64_t arrival = 0;
  uint32_t samples = 0;
  InputBatch input;
  OutputBatch output;

  uint64_t MemoryBytes() const;
};

class BatchTable {
 public:
  // `epochs_overlap`: batches of an epoch may go on when the next one has begun (synchronous
  // training).
  explicit BatchTable(bool epochs_overlap) : epochs_overlap_(epochs_overlap) {}

  // Begins a batch; one with this key that was given up by its worker is replaced. The buffers of
  // `input` and `output` may hold an earlier batch.
  OpenBatch& Begin(const BatchKey& key, uint32_t samples, bool alone);
  // Null: there is no such batch at that stage.
  OpenBatch* Find(const BatchKey& key, BatchStage stage);
  // The batch is done. REQUIRES that it is there.
  void End(const BatchKey& key);

  void DropWorker(Incarnation worker);
  // Drops the batches for which `drop` is true.
  void DropIf(const std::function<bool(const BatchId&)>& drop);
  void Clear() { batches_.clear(); }

  void set_most_bytes(uint64_t bytes) { most_bytes_ = bytes; }
  uint64_t most_bytes() const { return most_bytes_; }
  // Of all batches and of the buffers that are used again.
  uint64_t MemoryBytes() const;

  size_t size() const { return batches_.size(); }
  void CheckInvariants() const;

 private:
  // A worker's batches here: what they take, and the oldest.
  struct Holding {
    uint64_t bytes = 0;
    uint64_t oldest_arrival = 0;
    BatchKey oldest;
  };
  static constexpr size_t kMostKnownWorkers = 1024;
  static constexpr size_t kMostSpare = 64;

  size_t OfWorker(Incarnation worker) const;
  void MakeRoom(const BatchKey& next);
  void MakeRoomForAll();
  std::map<Incarnation, Holding> Holdings() const;

  const bool epochs_overlap_;
  std::map<BatchKey, std::unique_ptr<OpenBatch>> batches_;
  std::vector<std::unique_ptr<OpenBatch>> spare_;  // finished ones, their buffers are used again
  uint64_t arrivals_ = 0;
  uint64_t most_bytes_ = uint64_t{1} << 30;
  std::set<Incarnation> known_;  // workers that have ended a batch
};

}  // namespace dslide
