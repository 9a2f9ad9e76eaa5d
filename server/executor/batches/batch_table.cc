#include "server/executor/batches/batch_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace dslide {

size_t BatchTable::OfWorker(Incarnation worker) const {
  const auto begin = batches_.lower_bound({worker, {}});
  const auto end = batches_.upper_bound({worker, {~0u, ~0u, ~0u}});
  return static_cast<size_t>(std::distance(begin, end));
}

void BatchTable::MakeRoom(const BatchKey& next) {
  const uint32_t epoch = next.batch.epoch;
  if (epoch > epoch_ && !epochs_overlap_) {
    std::erase_if(batches_, [&](const auto& entry) { return entry.first.batch.epoch < epoch; });
  }
  epoch_ = std::max(epoch_, epoch);
  if (OfWorker(next.worker) >= kMaxBatchesOfWorker) {
    batches_.erase(batches_.lower_bound({next.worker, {}}));
  }
  if (batches_.size() < kMaxBatchesInFlight) return;
  batches_.erase(std::ranges::min_element(batches_, {},
                                          [](const auto& entry) { return entry.second->arrival; }));
}

OpenBatch& BatchTable::Begin(const BatchKey& key, uint32_t samples, bool alone) {
  batches_.erase(key);
  MakeRoom(key);
  std::unique_ptr<OpenBatch> batch;
  if (spare_.empty()) {
    batch = std::make_unique<OpenBatch>();
  } else {
    batch = std::move(spare_.back());
    spare_.pop_back();
  }
  batch->stage = BatchStage::kEmbedded;
  batch->alone = alone;
  batch->arrival = ++arrivals_;
  batch->samples = samples;
  return *batches_.emplace(key, std::move(batch)).first->second;
}

OpenBatch* BatchTable::Find(const BatchKey& key, BatchStage stage) {
  const auto found = batches_.find(key);
  return found == batches_.end() || found->second->stage != stage ? nullptr : found->second.get();
}

void BatchTable::End(const BatchKey& key) {
  auto node = batches_.extract(key);
  DSLIDE_CHECK(!node.empty());
  spare_.push_back(std::move(node.mapped()));
}

void BatchTable::DropWorker(Incarnation worker) {
  std::erase_if(batches_, [&](const auto& entry) { return entry.first.worker == worker; });
}

void BatchTable::DropIf(const std::function<bool(const BatchId&)>& drop) {
  std::erase_if(batches_, [&](const auto& entry) { return drop(entry.first.batch); });
}

void BatchTable::CheckInvariants() const {
  DSLIDE_CHECK(batches_.size() <= kMaxBatchesInFlight);
  DSLIDE_CHECK(batches_.size() <= arrivals_);
}

}  // namespace dslide
