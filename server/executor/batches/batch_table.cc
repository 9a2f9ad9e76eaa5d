#include "server/executor/batches/batch_table.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

template <typename... Vectors>
uint64_t BytesOf(const Vectors&... vectors) {
  return ((vectors.capacity() * sizeof(vectors[0])) + ...);
}

}  // namespace

uint64_t OpenBatch::MemoryBytes() const {
  const OutputBatch& o = output;
  return sizeof(OpenBatch) + BytesOf(input.offsets, input.columns, input.values) +
         BytesOf(o.hidden.data, o.narrow, o.label_totals, o.sample_weights, o.values, o.shifts,
                 o.chunks, o.weights, o.label_logits, o.masses, o.offsets, o.samples,
                 o.label_entries) +
         BytesOf(o.columns.rows, o.columns.drawn, o.columns.weights, o.columns.label_offsets,
                 o.columns.label_columns, o.columns.hit_offsets, o.columns.hit_columns,
                 o.columns.hit_weights, o.columns.slot_ends);
}

size_t BatchTable::OfWorker(Incarnation worker) const {
  const auto begin = batches_.lower_bound({worker, {}});
  const auto end = batches_.upper_bound({worker, {~0u, ~0u, ~0u}});
  return static_cast<size_t>(std::distance(begin, end));
}

void BatchTable::MakeRoom(const BatchKey& next) {
  if (!epochs_overlap_) {
    batches_.erase(batches_.lower_bound({next.worker, {}}),
                   batches_.lower_bound({next.worker, {next.batch.epoch, 0, 0}}));
  }
  if (OfWorker(next.worker) >= kMaxBatchesOfWorker) {
    batches_.erase(batches_.lower_bound({next.worker, {}}));
  }
  MakeRoomForAll();
}

void BatchTable::MakeRoomForAll() {
  uint64_t bytes = MemoryBytes();
  while (batches_.size() >= kMaxBatchesInFlight || bytes > most_bytes_) {
    if (!spare_.empty()) {
      bytes -= spare_.back()->MemoryBytes();
      spare_.pop_back();
      continue;
    }
    const auto holdings = Holdings();
    if (holdings.empty()) return;
    // Strangers first, then by bytes, then by age.
    const auto rank = [&](const auto& entry) {
      return std::tuple(!known_.contains(entry.first), entry.second.bytes,
                        ~entry.second.oldest_arrival);
    };
    const auto greatest = std::ranges::max_element(holdings, {}, rank);
    // A ticket has let each batch in, and leases bound those of the others.
    if (batches_.size() < kMaxBatchesInFlight && known_.contains(greatest->first)) return;
    const auto victim = batches_.find(greatest->second.oldest);
    bytes -= victim->second->MemoryBytes();
    batches_.erase(victim);
  }
}

std::map<Incarnation, BatchTable::Holding> BatchTable::Holdings() const {
  std::map<Incarnation, Holding> holdings;
  for (const auto& [key, batch] : batches_) {
    Holding& holding = holdings[key.worker];
    if (holding.bytes == 0 || batch->arrival < holding.oldest_arrival) {
      holding.oldest_arrival = batch->arrival;
      holding.oldest = key;
    }
    holding.bytes += batch->MemoryBytes();
  }
  return holdings;
}

uint64_t BatchTable::MemoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& [key, batch] : batches_) bytes += batch->MemoryBytes();
  for (const auto& batch : spare_) bytes += batch->MemoryBytes();
  return bytes;
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
  if (known_.size() < kMostKnownWorkers) known_.insert(key.worker);
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(node.mapped()));
}

void BatchTable::DropWorker(Incarnation worker) {
  known_.erase(worker);
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
