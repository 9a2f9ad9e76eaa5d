// A worker that does leased batches when the test says so.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "common/wire/messages.h"

namespace dslide {

// Batches that are leased and not done, each with its grant, which is without batches.
using LeasedBatches = std::deque<std::pair<LeaseGrant, LeaseBatch>>;

struct FakeWorker {
  // A plan of another generation ends what is leased.
  void TakePlan(const Plan& plan);
  void TakeGrant(const LeaseGrant& grant);

  // The report of a batch. An evaluation predicts the first label of each sample, which is right.
  static BatchDone Report(const LeaseGrant& grant, const LeaseBatch& batch);

  LeasedBatches work;
  uint32_t generation = 0;  // of its plan, 0: none
};

}  // namespace dslide
