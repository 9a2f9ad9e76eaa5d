// What holds between two calls of SchedulerCore, whatever has happened.
#include "common/base/check.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {

void SchedulerCore::CheckInvariants() const {
  if (phase_ == Phase::kFinished) return;  // nothing is decided any more
  const bool synchronous = IsSynchronous(inputs_.config.train);

  // Seats.
  DSLIDE_CHECK(seats_.size() == plan_.servers.size());
  DSLIDE_CHECK(plan_.slot_owner.empty() || plan_.slot_owner.size() == inputs_.config.cluster.slots);
  DSLIDE_CHECK(GenerationOf(plan_) <= plan_.version);
  DSLIDE_CHECK(live_ || phase_ == Phase::kGathering);
  DSLIDE_CHECK(live_ || plan_.servers.empty());
  DSLIDE_CHECK(!interrupted_ || phase_ == Phase::kGathering);
  DSLIDE_CHECK(roster_.Seated().size() + VacantSeats().size() == (live_ ? seats_.size() : 0));

  // The pass.
  DSLIDE_CHECK(!book_ || order_);
  DSLIDE_CHECK(!steps_ || (book_ && synchronous));
  DSLIDE_CHECK(!book_ || book_->done() <= book_->batches());
  DSLIDE_CHECK(pass() != Phase::kTraining || !book_ || leased_end_ <= book_->batches());
  DSLIDE_CHECK(!told_ || synchronous);
  DSLIDE_CHECK(!steps_ || told_ <= steps_->committed());
  DSLIDE_CHECK(!steps_ || told_batches_ <= book_->done());
  DSLIDE_CHECK(pass() != Phase::kEvaluating || (book_ && evaluator_));

  // A change of plan: one step of it is under way at a time.
  DSLIDE_CHECK(!moving_ || (live_ && InPass()));
  DSLIDE_CHECK(!switch_ || (!moving_ && !pause_ && !checkpointer_.round()));
  DSLIDE_CHECK(!switch_ || GenerationOf(plan_) < plan_.version);
  DSLIDE_CHECK(!lease_end_ || synchronous);

  // Checkpoints.
  DSLIDE_CHECK(!checkpointer_.round() || (InPass() && !pause_));

  checkpointer_.CheckInvariants();
  balancer_.CheckInvariants();
  advisor_.CheckInvariants();
}

}  // namespace dslide
