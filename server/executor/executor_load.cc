// What an executor's slots cost it.
#include "server/executor/executor.h"

namespace dslide {

bool Executor::Background() {
  if (!snapshot_in_progress()) return false;
  const SlotLoad::Busy busy(&load_);
  return AdvanceSnapshot();
}

void Executor::CountQuery(const OutputBatch& batch) {
  const SlotMap& map = output_.layer().map();
  const std::vector<uint32_t>& rows = batch.columns.rows;
  for (size_t u = 0; u < rows.size(); ++u) {
    SlotCounts& counts = load_.Of(map.SlotOf(rows[u]));
    ++counts.columns;
    counts.scores +=
        batch.offsets.empty() ? batch.hidden.rows : batch.offsets[u + 1] - batch.offsets[u];
  }
  if (batch.columns.hit_offsets.size() == 1) return;  // no buckets were looked into
  for (uint32_t sample = 0; sample < batch.hidden.rows; ++sample) {
    if (!load_.TakeTurn()) continue;
    output_.ForEachRetrieved(sample, [&](uint32_t row) {
      // A bucket may name rows that have left since it was built.
      const SlotId slot = map.SlotOf(row);
      if (slot != SlotMap::kNoSlot) load_.Of(slot).retrieved += SlotLoad::kSampleEvery;
    });
  }
}

void Executor::CountScan(uint32_t samples) {
  const SlotMap& map = output_.layer().map();
  for (const SlotId slot : map.owned()) {
    load_.Of(slot).scanned += uint64_t{samples} * map.SlotSize(slot);
  }
}

uint64_t Executor::MemoryBytes() const {
  return input_.layer().MemoryBytes() + output_.MemoryBytes();
}

uint64_t Executor::SlotBytes() const {
  const auto of = [](const Layer& layer) {
    return layer.map().rows_per_slot() *
           (layer.WeightBytes() + layer.StateBytes() + sizeof(RowScalars));
  };
  const LiveTables* tables = output_.tables();
  const uint64_t per_row = tables == nullptr ? 0 : tables->RowBytes();
  return of(input_.layer()) + of(output_.layer()) + per_row * output_.layer().map().rows_per_slot();
}

ExecutorLoad Executor::TakeLoad() {
  ExecutorLoad load = load_.Take(output_.layer().map().owned());
  for (SlotCost& cost : load.slots) cost.bytes = SlotBytes();
  return load;
}

std::optional<TableFigures> Executor::MeasureTables() const {
  if (output_.tables() == nullptr) return std::nullopt;
  return TableFigures{output_.tables()->tables().Occupancy(), output_.hashing().round,
                      output_.tables()->lag_batches()};
}

Measured Executor::Measure(bool tables) {
  return {TakeLoad(), MemoryBytes(), static_cast<uint32_t>(batches_.size()),
          tables ? MeasureTables() : std::nullopt};
}

}  // namespace dslide
