// Which steps of synchronous training are complete, and how far leases may go (train.staleness >=
// 0).
//
// Steps are counted over the whole run. A step is complete when all its batches are done; it
// counts, and is committed on all servers, when all steps before it are complete as well. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace dslide {

class StepBook {
 public:
  // For one epoch of `batches` batches, `step_batches` a step. The epoch's first step has the
  // number `first_step` within the run. `staleness`: how many steps a batch may be ahead.
  StepBook(uint64_t batches, uint64_t step_batches, uint64_t first_step, uint64_t staleness);

  // Batch `number` of the epoch is done, for the first time.
  void Done(uint64_t number);
  // Steps of the run that are complete, with all before them.
  uint64_t committed() const { return first_step_ + complete_; }

  // Batches of the epoch that belong to these steps.
  uint64_t CommittedBatches() const { return complete_ == 0 ? 0 : EndOf(complete_ - 1); }

  // Batches of the epoch below this may be worked on.
  uint64_t OpenBatches() const { return EndOf(complete_ + staleness_); }
  // Batches below this may be leased: one step more, so that workers have it when it opens.
  uint64_t LeasableBatches() const { return EndOf(complete_ + staleness_ + 1); }

 private:
  uint64_t EndOf(uint64_t step) const;  // batches of the epoch's steps up to this one

  uint64_t batches_;
  uint64_t step_batches_;
  uint64_t first_step_;
  uint64_t staleness_;
  uint64_t complete_ = 0;       // of the epoch's steps, from the first on
  std::vector<uint64_t> left_;  // [steps] batches to do
};

}  // namespace dslide
