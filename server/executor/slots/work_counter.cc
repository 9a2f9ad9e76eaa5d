#include "server/executor/slots/work_counter.h"

#include <vector>

namespace dslide {

void WorkCounter::CountQuery(const OutputBatch& batch) {
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

void WorkCounter::CountScan(uint32_t samples, bool int8) {
  const SlotMap& map = output_.layer().map();
  for (const SlotId slot : map.owned()) {
    const uint64_t pairs = uint64_t{samples} * map.SlotSize(slot);
    load_.Of(slot).scanned += int8 ? pairs * WorkCosts::kInt8Percent / 100 : pairs;
  }
}

}  // namespace dslide
