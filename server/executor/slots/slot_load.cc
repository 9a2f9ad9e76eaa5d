#include "server/executor/slots/slot_load.h"

#include <algorithm>

namespace dslide {

double SlotLoad::WorkOf(const SlotCounts& counts) const {
  const auto of = [](uint64_t count, double cost) { return static_cast<double>(count) * cost; };
  return of(counts.scores, 1) + of(counts.scanned, WorkCosts::kScanned) +
         of(counts.columns, WorkCosts::kColumn) + of(counts.input_rows, WorkCosts::kInputRow) +
         of(counts.retrieved, WorkCosts::kRetrieved);
}

LoadReport SlotLoad::Take(std::span<const SlotId> slots) {
  const double upkeep = static_cast<double>(build_steps_) * WorkCosts::kBuildStep;
  double total = upkeep;  // of slots that left meanwhile, too
  for (const SlotCounts& counts : counts_) total += WorkOf(counts);
  LoadReport report;
  report.batches = taken_;
  report.busy = {static_cast<float>(busy_seconds_)};
  for (const SlotId slot : slots) {
    const SlotCounts& counts = counts_[slot.value];
    const double work = WorkOf(counts) + upkeep / static_cast<double>(slots.size());
    const double share = total > 0 ? work / total : 1.0 / static_cast<double>(slots.size());
    report.slots.push_back(slot.value);
    report.executor.push_back(0);
    report.retrieved.push_back(static_cast<uint32_t>(counts.retrieved));
    report.used.push_back(static_cast<uint32_t>(counts.columns + counts.input_rows));
    report.updated.push_back(static_cast<uint32_t>(counts.updated));
    report.work.push_back(static_cast<float>(work));
    report.service_us.push_back(static_cast<float>(1e6 * busy_seconds_ * share));
  }
  std::ranges::fill(counts_, SlotCounts());
  build_steps_ = 0;
  taken_ = 0;
  busy_seconds_ = 0;
  return report;
}

}  // namespace dslide
