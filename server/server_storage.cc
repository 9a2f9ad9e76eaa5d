#include "server/server_storage.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

// Tickets of this file's own jobs; a core's begin at 1.
constexpr uint64_t kNobodyWaits = 0;
constexpr uint64_t kAbort = ~uint64_t{0};

// In both layers.
uint64_t RowsOf(const Config& config, std::span<const SlotId> slots) {
  const uint32_t of = config.cluster.slots;
  return uint64_t{SlotMap(config.model.features + 1, of, slots).size()} +
         SlotMap(config.model.labels, of, slots).size();
}

std::shared_ptr<CheckpointSource> SourceOf(const ServerLoad& load) {
  if (load.restore.empty()) return nullptr;
  std::vector<SlotId> slots;
  for (const auto& own : load.slots) slots.insert(slots.end(), own.begin(), own.end());
  return std::make_shared<CheckpointSource>(load.restore, std::move(slots), load.slots.size());
}

}  // namespace

ServerStorage::ServerStorage(const ServerLoad& load, CheckpointStore::Place place)
    : config_(load.config),
      load_ticket_(load.ticket),
      source_(SourceOf(load)),
      place_(std::move(place)) {}

void ServerStorage::StartLoad(ExecutorPool* pool) { pool->Submit(load_ticket_, LoadJob{source_}); }

void ServerStorage::StartSave(const ServerSave& save, ExecutorPool* pool) {
  DSLIDE_CHECK(!saving_);
  if (store_ == nullptr) {
    const CheckpointStore::Base base = source_ ? source_->base() : CheckpointStore::Base();
    store_ = std::make_unique<CheckpointStore>(place_, base);
  }
  saving_ = Saving();
  saving_->ticket = save.ticket;
  saving_->marks_missing = pool->size();
  // The store is told first, so that it has the save before the first row of it.
  store_->Begin({save.ticket, save.name, save.directory, save.shard, save.keep, save.slots,
                 pool->size(), RowsOf(config_, save.slots)});
  pool->Submit(save.ticket, MarkJob{store_.get(), save.committed});
}

bool ServerStorage::Take(const ExecutorPool::Outcome& outcome) {
  if (outcome.ticket == kNobodyWaits) return true;
  if (!saving_) return false;
  if (outcome.ticket == kAbort) {
    if (--saving_->aborts_missing == 0) {
      store_->GiveUp(saving_->mark_error->message,
                     saving_->mark_error->kind == ErrorKind::kTryLater);
    }
    return true;
  }
  if (outcome.ticket != saving_->ticket) return false;
  saving_->marks_missing--;
  if (const auto* marked = std::get_if<Marked>(&outcome.part)) {
    saving_->stall_us = std::max(saving_->stall_us, marked->stall_us);
  } else if (!saving_->mark_error) {
    saving_->mark_error = std::get<Error>(outcome.part);
  }
  return true;
}

std::optional<CheckpointStore::Saved> ServerStorage::Advance(ExecutorPool* pool) {
  if (!saving_ || saving_->marks_missing > 0) return std::nullopt;
  if (saving_->mark_error && !saving_->gives_up) {
    saving_->gives_up = true;
    saving_->aborts_missing = pool->size();
    pool->Submit(kAbort, DropSnapshotJob{.store_lost = false});
  }
  std::optional<CheckpointStore::Saved> saved = store_->Collect();
  if (!saved) return std::nullopt;
  if (!saved->done.error.empty()) {
    pool->Submit(kNobodyWaits, DropSnapshotJob{.store_lost = !saved->done.retry});
  }
  saved->done.stall_us = saving_->stall_us;
  saving_.reset();
  return saved;
}

}  // namespace dslide
