#include "server/storage/checkpoint_store.h"

#include <chrono>
#include <deque>
#include <thread>
#include <variant>

#include "common/base/bounded_queue.h"
#include "common/base/mutex.h"
#include "server/storage/shard_writer.h"

namespace dslide {
namespace {

// More than enough: one save is in progress at a time, after at most one aborted save.
constexpr size_t kOutcomes = 4;

struct Chunk {
  uint32_t executor;
  RowChunk rows;
};
struct Finished {
  uint32_t executor;
  std::string record;
};
struct GivenUp {
  std::string error;
  bool retry;
};
using Event = std::variant<CheckpointStore::Save, Chunk, Finished, GivenUp>;

size_t BytesOf(const RowChunk& chunk) {
  return chunk.bytes.size() + chunk.keys.size() * sizeof(chunk.keys[0]) +
         chunk.ends.size() * sizeof(chunk.ends[0]);
}

}  // namespace

// The thread, its queue, and the results.
class CheckpointStore::Writer {
 public:
  Writer(Place place, Base base)
      : room_(place.memory_bytes),
        shards_(std::move(place), std::move(base)),
        thread_([this] { Run(); }) {}

  ~Writer() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.NotifyOne();
  }

  void Push(Event event, size_t bytes) {
    {
      const MutexLock lock(mutex_);
      waiting_bytes_ += bytes;
      events_.push_back(std::move(event));
    }
    wake_.NotifyOne();
  }

  bool HasRoom() {
    const MutexLock lock(mutex_);
    return waiting_bytes_ < room_;
  }

  void AwaitRoom(uint32_t most_ms) {
    MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(most_ms);
    while (waiting_bytes_ >= room_ && released_.WaitUntil(lock, end)) {
    }
  }

  BoundedQueue<Saved>& outcomes() { return outcomes_; }

 private:
  void Run() {
    while (std::optional<Event> event = Next()) {
      if (auto* save = std::get_if<Save>(&*event)) {
        job_id_ = save->job_id;
        shards_.Begin(std::move(*save));
      } else if (auto* chunk = std::get_if<Chunk>(&*event)) {
        shards_.Write(chunk->executor, chunk->rows);
        Release(BytesOf(chunk->rows));
      } else if (auto* finished = std::get_if<Finished>(&*event)) {
        shards_.TakeRecord(finished->executor, std::move(finished->record));
        if (shards_.complete()) Report(shards_.End());
      } else if (auto* given_up = std::get_if<GivenUp>(&*event)) {
        Report(shards_.GiveUp(given_up->error, given_up->retry));
      }
    }
  }

  void Report(CheckpointDone done) {
    // One save is under way at a time, and its outcome is collected before the next begins.
    DSLIDE_CHECK(outcomes_.Push({job_id_, std::move(done), shards_.disk(), shards_.lost()}));
    shards_.CompactIfWorthIt();
  }

  // Nullopt: the thread must stop.
  std::optional<Event> Next() {
    MutexLock lock(mutex_);
    while (!stopping_ && events_.empty()) wake_.Wait(lock);
    if (stopping_) return std::nullopt;
    std::optional<Event> event(std::move(events_.front()));
    events_.pop_front();
    return event;
  }

  void Release(size_t bytes) {
    {
      const MutexLock lock(mutex_);
      waiting_bytes_ -= bytes;
    }
    released_.NotifyAll();
  }

  const size_t room_;
  Mutex mutex_;
  ConditionVariable wake_;
  ConditionVariable released_;  // room_ may have come
  std::deque<Event> events_ DSLIDE_GUARDED_BY(mutex_);
  size_t waiting_bytes_ DSLIDE_GUARDED_BY(mutex_) = 0;
  bool stopping_ DSLIDE_GUARDED_BY(mutex_) = false;
  BoundedQueue<Saved> outcomes_{kOutcomes};
  uint64_t job_id_ = 0;  // of the last save
  ShardWriter shards_;
  std::jthread thread_;  // last: it uses all other members
};

CheckpointStore::CheckpointStore(Place place, Base base)
    : writer_(std::make_unique<Writer>(std::move(place), std::move(base))) {}
CheckpointStore::~CheckpointStore() = default;

void CheckpointStore::Begin(Save save) { writer_->Push(std::move(save), 0); }

void CheckpointStore::GiveUp(const std::string& error, bool retry) {
  writer_->Push(GivenUp{error, retry}, 0);
}

int CheckpointStore::fd() const { return writer_->outcomes().fd(); }
std::optional<CheckpointStore::Saved> CheckpointStore::Collect() {
  return writer_->outcomes().Pop();
}

bool CheckpointStore::HasRoom(uint32_t) { return writer_->HasRoom(); }
void CheckpointStore::AwaitRoom(uint32_t, uint32_t most_ms) { writer_->AwaitRoom(most_ms); }

void CheckpointStore::Put(uint32_t executor, RowChunk chunk) {
  const size_t bytes = BytesOf(chunk);
  writer_->Push(Chunk{executor, std::move(chunk)}, bytes);
}

void CheckpointStore::Finish(uint32_t executor, std::string record) {
  writer_->Push(Finished{executor, std::move(record)}, 0);
}

}  // namespace dslide
