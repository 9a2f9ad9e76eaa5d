#include "server/storage/checkpoint_source.h"

#include <algorithm>
#include <utility>

namespace dslide {
namespace {

std::vector<SlotId> Sorted(std::vector<SlotId> slots) {
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace

CheckpointSource::CheckpointSource(std::string directory, std::vector<SlotId> slots,
                                   size_t executors)
    : directory_(std::move(directory)), slots_(Sorted(std::move(slots))), left_(executors) {}

Status CheckpointSource::Open() {
  auto shards = CheckpointShards::Open(directory_);
  DSLIDE_RETURN_IF_ERROR(shards);
  auto base = (*shards)->BaseFor(slots_);
  DSLIDE_RETURN_IF_ERROR(base);
  shards_ = *std::move(shards);
  base_ = *std::move(base);
  return {};
}

Status CheckpointSource::Load(Executor* executor) {
  std::call_once(once_, [this] { opened_ = Open(); });
  if (!opened_.ok()) return opened_;
  const Status restored = shards_->Restore(executor, base_, &cancelled_);
  if (--left_ == 0) shards_.reset();
  return restored;
}

}  // namespace dslide
