#include "server/server_storage.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "common/base/process.h"
#include "server/storage/checkpoint.h"

namespace dslide {
namespace {

// Tickets of this file's own jobs; a core's begin at 1.
constexpr uint64_t kNobodyWaits = 0;
constexpr uint64_t kAbort = ~uint64_t{0};

Body AbortSnapshot(Executor& executor) {
  executor.AbortSnapshot();
  return Ack{};
}

Body ForgetStored(Executor& executor) {
  executor.ForgetStored();
  return Ack{};
}

std::string StepText(const std::optional<uint64_t>& step) {
  return step ? std::to_string(*step) : "none";
}

// In both layers.
uint64_t RowsOf(const Config& config, std::span<const SlotId> slots) {
  const uint32_t of = config.cluster.slots;
  return uint64_t{SlotMap(config.model.features + 1, of, slots).size()} +
         SlotMap(config.model.labels, of, slots).size();
}

// An executor's mark. A CheckpointDone says how long it took, or why there is none.
Body Mark(Executor& executor, SnapshotSink* sink, uint32_t number,
          const std::optional<uint64_t>& committed) {
  CheckpointDone part;
  if (executor.synchronous() && executor.committed() != committed) {
    part.error = fmt::format("an executor stands at step {}, the checkpoint is of step {}",
                             StepText(executor.committed()), StepText(committed));
    part.retry = true;
    return part;
  }
  const int64_t begin_us = MonotonicMicros();
  executor.BeginSnapshot(sink, number);
  part.stall_us = static_cast<uint32_t>(MonotonicMicros() - begin_us);
  return part;
}

}  // namespace

// What the executors share while they load: the shards are opened once, by the first of them, and
// closed by the last.
struct ServerStorage::Loading {
  explicit Loading(const ServerLoad& l) : load(l), left(l.slots.size()) {}

  const ServerLoad load;
  std::once_flag once;
  Status opened;
  std::shared_ptr<const CheckpointShards> shards;
  CheckpointStore::Base base;
  std::atomic<size_t> left;

  void Open() {
    const auto result = CheckpointShards::Open(load.restore);
    if (!result.ok()) {
      opened = result.error();
      return;
    }
    shards = *result;
    std::vector<SlotId> slots;
    for (const auto& own : load.slots) slots.insert(slots.end(), own.begin(), own.end());
    std::sort(slots.begin(), slots.end());
    auto chosen = shards->BaseFor(slots);
    if (chosen.ok()) {
      base = std::move(*chosen);
    } else {
      opened = chosen.error();
    }
  }

  // The first job of an executor.
  Body Load(Executor& executor) {
    if (load.restore.empty()) {
      executor.Initialise();
    } else {
      std::call_once(once, [this] { Open(); });
      if (opened.ok()) {
        const Status restored = shards->Restore(&executor, base);
        if (--left == 0) shards.reset();
        if (!restored.ok()) return ErrorReply{ErrorCode::kRefused, restored.error().message};
      } else {
        return ErrorReply{ErrorCode::kRefused, opened.error().message};
      }
    }
    Layer& input = executor.input().layer();
    Layer& output = executor.output().layer();
    return Ready{0, uint64_t{input.map().size()} + output.map().size(),
                 input.MemoryBytes() + output.MemoryBytes()};
  }
};

ServerStorage::ServerStorage(const ServerLoad& load, CheckpointStore::Place place)
    : loading_(std::make_shared<Loading>(load)), place_(std::move(place)) {}

ServerStorage::~ServerStorage() = default;

void ServerStorage::StartLoad(ExecutorPool* pool) {
  pool->Submit(loading_->load.ticket,
               [loading = loading_](Executor& executor) { return loading->Load(executor); });
}

void ServerStorage::StartSave(const ServerSave& save, ExecutorPool* pool) {
  DSLIDE_CHECK(ticket_ == 0);
  if (store_ == nullptr) store_ = std::make_unique<CheckpointStore>(place_, loading_->base);
  ticket_ = save.ticket;
  marks_missing_ = pool->size();
  aborts_missing_.reset();
  stall_us_ = 0;
  mark_error_.clear();
  mark_retry_ = false;
  // The store is told first, so that it has the save before the first row of it.
  store_->Begin({save.ticket, save.name, save.directory, save.shard, save.keep, save.slots,
                 pool->size(), RowsOf(loading_->load.config, save.slots)});
  const auto next = std::make_shared<std::atomic<uint32_t>>(0);
  SnapshotSink* const sink = store_.get();
  pool->Submit(save.ticket, [next, sink, committed = save.committed](Executor& executor) {
    return Mark(executor, sink, next->fetch_add(1), committed);
  });
}

bool ServerStorage::Take(const ExecutorPool::Outcome& outcome) {
  if (outcome.ticket == kNobodyWaits) return true;
  if (outcome.ticket == kAbort) {
    if (--*aborts_missing_ == 0) store_->GiveUp(mark_error_, mark_retry_);
    return true;
  }
  if (ticket_ == 0 || outcome.ticket != ticket_) return false;
  marks_missing_--;
  if (const auto* error = std::get_if<ErrorReply>(&outcome.part)) {
    mark_error_ = error->text;
    mark_retry_ = false;
  } else if (const auto* done = std::get_if<CheckpointDone>(&outcome.part)) {
    stall_us_ = std::max(stall_us_, done->stall_us);
    if (!done->error.empty() && mark_error_.empty()) {
      mark_error_ = done->error;
      mark_retry_ = done->retry;
    }
  }
  return true;
}

std::optional<CheckpointStore::Saved> ServerStorage::Advance(ExecutorPool* pool) {
  if (ticket_ == 0 || marks_missing_ > 0) return std::nullopt;
  if (!mark_error_.empty() && !aborts_missing_) {
    pool->Submit(kAbort, AbortSnapshot);
    aborts_missing_ = pool->size();
  }
  if (!saved_) saved_ = store_->Collect();
  if (!saved_) return std::nullopt;
  // Before the core may ask for the next one.
  if (!saved_->done.error.empty()) {
    pool->Submit(kNobodyWaits, saved_->done.retry ? AbortSnapshot : ForgetStored);
  }
  saved_->done.stall_us = stall_us_;
  ticket_ = 0;
  return std::exchange(saved_, std::nullopt);
}

}  // namespace dslide
