#include "scheduler/pass/pass.h"
#include "scheduler/base/events.h"

#include <doctest/doctest.h>

#include "scheduler/pass/run_totals.h"
#include "scheduler/pass/training_clock.h"
#include "tests/scheduler/support/actions.h"
#include "tests/support/events.h"
#include "tests/support/numbered_samples.h"

namespace dslide::pass_test {
namespace {

constexpr Incarnation kWorker{11}, kServer{1};

// 50 samples in 13 batches of 4, in units of 3; two epochs.
struct Setup {
  explicit Setup(int staleness = -1, CountedWork counted = {})
      : train(NumberedSamples(50, 10)), test(NumberedSamples(6, 10)), pass(std::move(counted)) {
    run.config.train.epochs = 2;
    run.config.train.batch = 4;
    run.config.train.unit_batches = 3;
    run.config.train.staleness = staleness;
    run.config.train.target_batch = 8;
    run.config.model.labels = 10;
    run.train = &train;
    run.test = &test;
    Join join;
    join.role = Role::kServer;
    roster.Add(join, kServer, "p", 0).seated = true;
  }
  std::optional<LeaseGrant> Lease() {
    Pass::Applicant applicant;
    applicant.worker = kWorker;
    applicant.batches = 3;
    applicant.speed = [](Incarnation) { return 1.0; };
    return pass.Lease(run, applicant, now_ms);
  }
  static BatchDone Report(const LeaseGrant& grant, size_t batch) {
    BatchDone done;
    done.lease = grant.lease;
    done.batch = {grant.epoch, grant.unit, grant.batches[batch].index};
    done.samples = grant.unit == 4 ? 2 : 4;  // the last batch has the rest
    return done;
  }
  // Leases and trains until nothing is left; returns the number of batches.
  size_t TrainAll() {
    size_t trained = 0;
    while (const auto grant = Lease()) {
      for (size_t i = 0; i < grant->batches.size(); ++i) {
        trained += pass.CountTrained(run, Report(*grant, i), now_ms);
      }
      pass.Commit(run, roster, &out);
    }
    pass.CheckInvariants(run);
    return trained;
  }

  Dataset train, test;
  RunContext run;
  Roster roster{1000};
  Outbox out{0};
  Pass pass;
  int64_t now_ms = 0;
};

TEST_CASE("an epoch's batches are leased and count once") {
  Setup run;
  CHECK_FALSE(run.Lease());  // no pass yet
  run.pass.Begin(run.run, &run.out);
  const auto grant = run.Lease();
  REQUIRE(grant);
  CHECK(grant->kind == LeaseKind::kTrain);
  CHECK(grant->batches.size() == 3);
  const BatchDone done = Setup::Report(*grant, 0);
  CHECK(run.pass.IsOfThisPass(done));
  CHECK(run.pass.CountTrained(run.run, done, 1));
  CHECK_FALSE(run.pass.CountTrained(run.run, done, 2));
  CHECK(run.pass.counted().batches == 1);
  CHECK(run.pass.counted().samples == 4);
  CHECK(run.pass.batches_left() == 12);
  run.pass.CheckInvariants(run.run);
}

TEST_CASE("after an epoch there is a moment without a pass, and after the last one the end") {
  Setup run;
  run.pass.Begin(run.run, &run.out);
  CHECK(run.TrainAll() == 13);
  REQUIRE(run.pass.complete());
  run.pass.EndEpoch(run.run, &run.out);
  CHECK(run.pass.between_passes());
  CHECK_FALSE(run.pass.training_complete());
  CHECK(All<action::ShowEpoch>(run.out.Drain()).at(0).epochs == 1);
  run.pass.BeginEpoch(run.run);
  CHECK(run.TrainAll() == 13);
  run.pass.EndEpoch(run.run, &run.out);
  CHECK(run.pass.training_complete());
  CHECK(run.pass.counted().batches == 26);
}

TEST_CASE("a pass goes on from what counts") {
  Setup run(-1, {0, 2, 8, {{0, 0}, {1, 2}}});
  run.pass.Begin(run.run, &run.out);
  CHECK(Has(NoticesIn(run.out.Drain()), event::kRunContinued, {{"epoch", 1}, {"batches", 2}}));
  CHECK(run.pass.done() == 2);
  CHECK(run.TrainAll() == 11);
  CHECK(run.pass.counted().batches == 13);
}

TEST_CASE("a pass that begins after the last epoch has nothing to do") {
  Setup run(-1, {2, 26, 100, {}});
  run.pass.Begin(run.run, &run.out);
  CHECK(run.pass.training_complete());
  CHECK(run.pass.between_passes());
  CHECK_FALSE(run.Lease());
}

TEST_CASE("what a worker gives back is leased again") {
  Setup run;
  run.pass.Begin(run.run, &run.out);
  const auto grant = run.Lease();
  REQUIRE(grant);
  CHECK(run.pass.Return(kWorker) == 1);
  CHECK(run.pass.OpenLeases().empty());
  const auto again = run.Lease();
  REQUIRE(again);
  CHECK(again->unit == grant->unit);
}

TEST_CASE("leases without progress expire, unless all wait for a server") {
  Setup run;
  run.pass.Begin(run.run, &run.out);
  REQUIRE(run.Lease());
  const int64_t late_ms = run.run.config.cluster.lease_timeout_ms + 1;
  CHECK(run.pass.ExpireLeases(run.run, true, late_ms) == 0);
  CHECK(run.pass.ExpireLeases(run.run, false, late_ms) == 0);  // it was renewed
  CHECK(run.pass.ExpireLeases(run.run, false, 2 * late_ms) == 1);
}

TEST_CASE("an evaluation counts only reports of the batch's samples with known labels") {
  Setup run;
  run.pass.Begin(run.run, &run.out);
  run.TrainAll();
  run.pass.EndEpoch(run.run, &run.out);
  run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities());
  CHECK(run.pass.evaluating());
  const auto grant = run.Lease();
  REQUIRE(grant);
  CHECK(grant->kind == LeaseKind::kEvaluate);
  REQUIRE(grant->batches.size() == 2);  // of 4 and 2 samples
  BatchDone done = Setup::Report(*grant, 0);
  done.predictions.offsets = {0, 1, 2};
  done.predictions.ids = {1, 2};
  CHECK_FALSE(run.pass.CountEvaluated(run.run, done, 1, 0));  // too few samples
  done.predictions.offsets = {0, 1, 2, 3, 4};
  done.predictions.ids = {0, 1, 2, 99};
  CHECK_FALSE(run.pass.CountEvaluated(run.run, done, 1, 0));  // a label that does not exist
  done.predictions.ids = {0, 1, 2, 3};
  CHECK(run.pass.CountEvaluated(run.run, done, 1, 0));
  done = Setup::Report(*grant, 1);
  done.predictions.offsets = {0, 1, 2};
  done.predictions.ids = {9, 5};
  CHECK(run.pass.CountEvaluated(run.run, done, 1, 0));
  REQUIRE(run.pass.complete());
  std::vector<EvaluatedSample> examples;
  const EvaluationResult result = run.pass.EndEvaluation(&examples);
  CHECK(result.set == EvaluationSet::kTest);
  CHECK(result.epoch == 1);
  CHECK(result.metrics.samples == 6);
  CHECK(result.metrics.precision[0] == doctest::Approx(5.0 / 6));
  CHECK_FALSE(run.pass.evaluating());
  REQUIRE(examples.size() == 6);
  CHECK(examples[3].number == 3);
  CHECK(examples[3].labels == std::vector<uint32_t>{3});
  CHECK(examples[5].predicted == std::vector<uint32_t>{5});
}

TEST_CASE("an evaluation keeps its last samples, with what was predicted for them") {
  Setup run;
  run.test = NumberedSamples(27, 10);
  run.pass.Begin(run.run, &run.out);
  run.TrainAll();
  run.pass.EndEpoch(run.run, &run.out);
  run.pass.BeginEvaluation(run.run, EvaluationSet::kTest, InversePropensities());
  while (const auto grant = run.Lease()) {
    for (size_t i = 0; i < grant->batches.size(); ++i) {
      BatchDone done = Setup::Report(*grant, i);
      const bool is_last = grant->unit == 2 && done.batch.index == 0;
      done.predictions.offsets = {0, 1, 1, 1};
      if (!is_last) done.predictions.offsets.push_back(1);
      done.predictions.ids = {7};
      CHECK(run.pass.CountEvaluated(run.run, done, 1, 0));
    }
  }
  std::vector<EvaluatedSample> examples;
  run.pass.EndEvaluation(&examples);
  REQUIRE(examples.size() == Evaluation::kExamples);
  for (size_t i = 0; i < examples.size(); ++i) {
    CHECK(examples[i].number == 17 + i);
    CHECK(examples[i].predicted.empty() == ((17 + i) % 4 != 0));
  }
}

TEST_CASE("synchronous: steps count in order, and servers are told once") {
  Setup run(0);
  run.pass.Begin(run.run, &run.out);
  run.pass.Commit(run.run, run.roster, &run.out);
  CHECK(run.pass.told() == 0);
  CHECK_FALSE(run.pass.AllCommitted(run.roster.Seated()));  // not answered yet
  run.roster.Find(kServer)->committed = 0;
  CHECK(run.pass.AllCommitted(run.roster.Seated()));
  run.out.Drain();

  const auto grant = run.Lease();
  REQUIRE(grant);
  REQUIRE(grant->batches.size() == 3);
  CHECK(run.pass.CountTrained(run.run, Setup::Report(*grant, 1), 0));
  run.pass.Commit(run.run, run.roster, &run.out);
  CHECK(MessagesIn(run.out.Drain()).empty());
  CHECK(run.pass.CountTrained(run.run, Setup::Report(*grant, 0), 0));
  run.pass.Commit(run.run, run.roster, &run.out);
  const SchedulerEffects told = run.out.Drain();
  REQUIRE(MessagesIn(told).size() == 1);
  CHECK(std::get<CommitSteps>(*MessagesIn(told)[0].body).committed == 1);
  CHECK(told.sync_ledger);
  run.pass.CommitAgain(*run.roster.Find(kServer), &run.out);
  CHECK(MessagesIn(run.out.Drain()).size() == 1);
}

TEST_CASE("synchronous: a checkpoint holds whole steps") {
  Setup run(0);
  run.pass.Begin(run.run, &run.out);
  const auto grant = run.Lease();
  REQUIRE(grant);
  for (size_t i = 0; i < 3; ++i) CHECK(run.pass.CountTrained(run.run, Setup::Report(*grant, i), 0));
  run.pass.Commit(run.run, run.roster, &run.out);
  CHECK(run.pass.counted().batches == 3);
  CHECK(run.pass.BatchesToSave() == 2);
  const CountedWork work = run.pass.WorkToSave(run.run);
  CHECK(work.batches == 2);
  CHECK(work.samples == 8);
  CHECK(work.done.size() == 2);
  CHECK_FALSE(run.pass.BetweenSteps());
}

TEST_CASE("synchronous: while steps are held no further step begins") {
  Setup run(0);
  run.pass.Begin(run.run, &run.out);
  run.pass.Commit(run.run, run.roster, &run.out);
  CHECK(run.pass.BetweenSteps());
  run.pass.HoldSteps(run.run);
  CHECK_FALSE(run.Lease());
  run.pass.ReleaseSteps();
  const auto grant = run.Lease();
  REQUIRE(grant);
  run.pass.HoldSteps(run.run);  // now to the end of the second step
  CHECK_FALSE(run.pass.BetweenSteps());
  for (size_t i = 0; i < 3; ++i) CHECK(run.pass.CountTrained(run.run, Setup::Report(*grant, i), 0));
  run.pass.Commit(run.run, run.roster, &run.out);
  const auto rest = run.Lease();
  REQUIRE(rest);
  CHECK(rest->batches.size() == 1);
  CHECK(run.pass.CountTrained(run.run, Setup::Report(*rest, 0), 0));
  run.pass.Commit(run.run, run.roster, &run.out);
  CHECK(run.pass.BetweenSteps());
  CHECK_FALSE(run.Lease());
}

TEST_CASE("the training clock stands still while it is stopped") {
  TrainingClock clock;
  CHECK(clock.Millis(500) == 0);
  clock.Start(1000);
  CHECK(clock.running());
  CHECK(clock.Millis(1500) == 500);
  clock.Stop(3.5, 2000);
  CHECK_FALSE(clock.running());
  CHECK(clock.Millis(9000) == 1000);
  CHECK(clock.cpu_seconds() == 3.5);
  clock.Start(9000);
  CHECK(clock.Millis(9001) == 1001);
}

TEST_CASE("lease bytes are per trained sample") {
  RunTotals totals;
  totals.lease_bytes = 100;
  CHECK(totals.LeaseBytesPerSample() == 0);
  totals.work.samples = 50;
  CHECK(totals.LeaseBytesPerSample() == 2);
}

}  // namespace
}  // namespace dslide::pass_test
