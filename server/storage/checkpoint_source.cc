#include "server/storage/checkpoint_source.h"

#include <algorithm>
#include <utility>

namespace dslide {
namespace {

std::vector<SlotId> AllOf(const std::vector<std::vector<SlotId>>& slots) {
  std::vector<SlotId> all;
  for (const auto& own : slots) all.insert(all.end(), own.begin(), own.end());
  std::sort(all.begin(), all.end());
  return all;
}

// An executor with a row from elsewhere stores all of its rows again.
bool HasAllOfAnExecutor(const CheckpointStore::Base& base,
                        const std::vector<std::vector<SlotId>>& slots) {
  return std::ranges::any_of(slots, [&](const std::vector<SlotId>& own) {
    return std::ranges::all_of(
        own, [&](SlotId slot) { return std::ranges::binary_search(base.slots, slot); });
  });
}

}  // namespace

CheckpointSource::CheckpointSource(std::string directory, std::vector<std::vector<SlotId>> slots,
                                   uint64_t rows)
    : directory_(std::move(directory)),
      slots_(std::move(slots)),
      rows_(rows),
      left_(slots_.size()) {}

Status CheckpointSource::Open() {
  auto shards = CheckpointShards::Open(directory_);
  DSLIDE_RETURN_IF_ERROR(shards);
  auto base = (*shards)->BaseFor(AllOf(slots_), rows_);
  DSLIDE_RETURN_IF_ERROR(base);
  shards_ = *std::move(shards);
  if (HasAllOfAnExecutor(*base, slots_)) base_ = *std::move(base);
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
