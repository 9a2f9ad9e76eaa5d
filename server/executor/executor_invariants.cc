// What holds between two calls of an Executor.
#include "server/executor/executor.h"

namespace dslide {

void Executor::CheckInvariants() {
  thread_.CheckInDebugBuild();
  const SlotMap& map = output_.layer().map();
  DSLIDE_CHECK(std::ranges::equal(input_.layer().map().owned(), map.owned()));
  DSLIDE_CHECK(batches_.size() <= kMaxBatchesInFlight);
  DSLIDE_CHECK(batches_.size() <= arrivals_);

  // Inference keeps nothing between two requests.
  if (purpose_ == Purpose::kInference) {
    DSLIDE_CHECK(batches_.empty() && held_.empty() && incoming_.empty());
    DSLIDE_CHECK(!snapshot_ && source_.copies() == 0);
  }

  // Steps are held until they are committed, in synchronous training only.
  DSLIDE_CHECK(held_.empty() || synchronous());
  DSLIDE_CHECK(held_.empty() || (committed_ && held_.begin()->first >= *committed_));

  // A slot is part of the model, or comes, or goes: one of these.
  for (const auto& [slot, incoming] : incoming_) {
    DSLIDE_CHECK(!map.Owns(slot) && map.HasRegion(slot) && !source_.Departed(slot));
    DSLIDE_CHECK(input_.layer().map().HasRegion(slot));
  }
}

}  // namespace dslide
