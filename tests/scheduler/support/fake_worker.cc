#include "tests/scheduler/support/fake_worker.h"

#include "common/run/slot_plan.h"

namespace dslide {

void FakeWorker::TakePlan(const Plan& plan) {
  if (generation != GenerationOf(plan)) work.clear();
  generation = GenerationOf(plan);
}

void FakeWorker::TakeGrant(const LeaseGrant& grant) {
  for (const LeaseBatch& batch : grant.batches) {
    work.emplace_back(grant, batch);
    work.back().first.batches.clear();
  }
}

BatchDone FakeWorker::Report(const LeaseGrant& grant, const LeaseBatch& batch) {
  BatchDone done;
  done.lease = grant.lease;
  done.batch = {grant.epoch, grant.unit, batch.index};
  done.samples = batch.features.rows();
  done.loss_sum = done.samples;
  for (uint32_t i = 0; grant.kind == LeaseKind::kEvaluate && i < done.samples; ++i) {
    done.predictions.ids.push_back(batch.labels.Ids(i)[0]);
    done.predictions.scores.push_back(1.0f);
    done.predictions.offsets.push_back(i + 1);
  }
  return done;
}

}  // namespace dslide
