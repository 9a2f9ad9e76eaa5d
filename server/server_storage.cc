#include "server/server_storage.h"

#include <utility>

#include "common/run/slot_rows.h"

namespace dslide {
namespace {

std::shared_ptr<CheckpointSource> SourceOf(const ServerLoad& load) {
  if (load.restore.empty()) return nullptr;
  uint64_t rows = 0;
  for (const auto& own : load.slots) rows += RowsOfSlots(load.config, own);
  return std::make_shared<CheckpointSource>(load.restore, load.slots, rows);
}

}  // namespace

ServerStorage::ServerStorage(const ServerLoad& load, CheckpointStore::Place place)
    : load_job_id_(load.job_id), source_(SourceOf(load)), place_(std::move(place)) {}

void ServerStorage::StartLoad(ExecutorPool* pool) { pool->Submit(load_job_id_, LoadJob{source_}); }

void ServerStorage::CancelLoad() {
  if (source_) source_->Cancel();
}

void ServerStorage::StartSave(const ServerSave& save, ExecutorPool* pool) {
  if (store_ == nullptr) {
    const CheckpointStore::Base base = source_ ? source_->base() : CheckpointStore::Base();
    store_ = std::make_unique<CheckpointStore>(place_, base);
  }
  // The store comes first, so that it has the save before the first row of it.
  store_->Begin({save.job_id, save.name, save.directory, save.shard, save.keep, save.slots,
                 pool->size(), save.rows});
  pool->Submit(save.job_id, MarkJob{store_.get(), save.committed});
}

void ServerStorage::GiveUp(const Error& why) {
  store_->GiveUp(why.message, why.kind == ErrorKind::kTryLater);
}

std::optional<CheckpointStore::Saved> ServerStorage::Collect() {
  return store_ ? store_->Collect() : std::nullopt;
}

}  // namespace dslide
