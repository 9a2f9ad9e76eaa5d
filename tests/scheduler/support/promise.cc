#include "tests/scheduler/support/promise.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace dslide {

void Promise::Leased(uint64_t worker, const BatchId& id, const LeaseBatch& batch) {
  if (content.contains(id)) again.insert({worker, id});
  content[id] = batch.features.ids;
}

void Promise::Logged(const LedgerEntry& entry) {
  if (const auto* batch = std::get_if<LedgerCounted>(&entry)) counted[batch->batch]++;
  const auto* restored = std::get_if<LedgerRestored>(&entry);
  if (restored == nullptr) return;
  std::erase_if(counted, [&](const auto& c) {
    const BatchId& id = c.first;
    const bool done =
        std::any_of(restored->done.begin(), restored->done.end(),
                    [&](const DoneBatch& d) { return d.unit == id.unit && d.index == id.index; });
    return id.epoch > restored->epoch || (id.epoch == restored->epoch && !done);
  });
}

void Promise::CheckAllCountedOnce(size_t epochs) const {
  CHECK(counted.size() == epochs * kBatches);
  std::map<std::pair<uint32_t, uint32_t>, int> samples;  // (epoch, sample)
  for (const auto& [batch, times] : counted) {
    CHECK(times == 1);
    const auto found = content.find(batch);
    REQUIRE(found != content.end());
    for (const uint32_t id : found->second) samples[{batch.epoch, id}]++;
  }
  CHECK(samples.size() == epochs * kSamples);
  for (const auto& [sample, times] : samples) CHECK(times == 1);
}

}  // namespace dslide
