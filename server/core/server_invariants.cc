// What holds between two calls of a ServerCore.
#include "common/run/slot_plan.h"
#include "server/core/server_core.h"

namespace dslide {

void ServerCore::CheckInvariants() const {
  // The run, the plan and the load come in this order.
  DSLIDE_CHECK(!plan_ || config_);
  DSLIDE_CHECK(!loaded_ || plan_);
  DSLIDE_CHECK(!load_error_ || (plan_ && !loaded_));
  DSLIDE_CHECK(!plan_ || loaded_ || load_error_ || !open_.empty());
  if (plan_) {
    DSLIDE_CHECK(plan_->slot_owner.size() == config_->cluster.slots);
    DSLIDE_CHECK(executor_of_.size() == config_->cluster.slots);
    DSLIDE_CHECK(executors_ > 0 && executors_ <= config_->cluster.slots);
    DSLIDE_CHECK(without_slots_ || plan_->servers.at(index_).incarnation == identity_.incarnation);
  }

  // Without loaded slots there is nothing to move, to save, to commit or to measure.
  if (!loaded_) {
    DSLIDE_CHECK(!switch_ && !next_plan_ && !without_slots_);
    DSLIDE_CHECK(!saving_ && !orphaned_);
    DSLIDE_CHECK(!committed_ && waiting_.empty() && fenced_.empty());
    DSLIDE_CHECK(fetcher_.empty() && pulls_.empty() && release_.empty() && leaving_slots_.empty());
    DSLIDE_CHECK(!measuring_);
  }

  // One plan switch or one checkpoint at a time; the next plan waits for either.
  DSLIDE_CHECK(!(switch_ && saving_));
  DSLIDE_CHECK(!(without_slots_ && saving_));
  DSLIDE_CHECK(!switch_ || switch_->from_version < plan_->version);
  DSLIDE_CHECK(!next_plan_ || switch_ || saving_ || orphaned_);
  DSLIDE_CHECK(!next_plan_ || (next_plan_->version > plan_->version &&
                               GenerationOf(*next_plan_) == GenerationOf(*plan_)));
  DSLIDE_CHECK(!loaded_ || switch_ || ready_.plan_version == plan_->version);
  DSLIDE_CHECK(!saves_orphan_ || orphaned_);
  DSLIDE_CHECK(!move_ready_ || move_ != 0);

  // Requests are bounded, and none waits for a step that is open.
  DSLIDE_CHECK(waiting_.size() <= kMaxWaiting && early_.size() <= kMaxEarly);
  DSLIDE_CHECK(waiting_.empty() || (!switch_ && MustWait(*waiting_.begin()->second.request)));
  DSLIDE_CHECK(open_.empty() || open_.rbegin()->first < next_ticket_);
  DSLIDE_CHECK(!saving_ || saving_->ticket < next_ticket_);
  DSLIDE_CHECK(!measuring_ || open_.contains(measuring_->ticket));

  // What was asked for before leaving has been sent.
  DSLIDE_CHECK(life_sequence_ <= next_sequence_);
  DSLIDE_CHECK(!drain_sequence_ || (stop_requested_ && *drain_sequence_ < next_sequence_));
  DSLIDE_CHECK(!stop_sequence_ || (stop_requested_ && *stop_sequence_ < next_sequence_));
  DSLIDE_CHECK(!stop_unheard_ || stop_sequence_);
}

}  // namespace dslide
