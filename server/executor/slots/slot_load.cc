#include "server/executor/slots/slot_load.h"

#include <algorithm>

namespace dslide {

double SlotLoad::WorkOf(const SlotCounts& counts) const {
  const auto of = [](uint64_t count, double cost) { return static_cast<double>(count) * cost; };
  return of(counts.scores, 1) + of(counts.scanned, WorkCosts::kScanned) +
         of(counts.columns, WorkCosts::kColumn) + of(counts.input_rows, WorkCosts::kInputRow) +
         of(counts.retrieved, WorkCosts::kRetrieved);
}

ExecutorLoad SlotLoad::Take(std::span<const SlotId> slots) {
  const double upkeep = static_cast<double>(build_steps_) * WorkCosts::kBuildStep;
  double total = upkeep;  // of slots that left meanwhile, too
  for (const SlotCounts& counts : counts_) total += WorkOf(counts);
  const auto with_neurons = static_cast<double>(
      std::ranges::count_if(slots, [this](SlotId slot) { return with_neurons_.Has(slot); }));
  ExecutorLoad load{taken_, busy_seconds_, {}};
  for (const SlotId slot : slots) {
    const SlotCounts& counts = counts_[slot.value];
    const double own_upkeep = with_neurons_.Has(slot) ? upkeep / with_neurons : 0;
    const double work = WorkOf(counts) + own_upkeep;
    const double share = total > 0 ? work / total : 1.0 / static_cast<double>(slots.size());
    SlotCost& cost = load.slots.emplace_back();
    cost.slot = slot;
    cost.retrieved = static_cast<uint32_t>(counts.retrieved);
    cost.used = static_cast<uint32_t>(counts.columns + counts.input_rows);
    cost.updated = static_cast<uint32_t>(counts.updated);
    cost.work = static_cast<float>(work);
    cost.service_us = static_cast<float>(1e6 * busy_seconds_ * share);
  }
  std::ranges::fill(counts_, SlotCounts());
  build_steps_ = 0;
  taken_ = 0;
  busy_seconds_ = 0;
  return load;
}

}  // namespace dslide
