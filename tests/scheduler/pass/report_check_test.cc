#include "scheduler/pass/report_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "common/run/lease_proofs.h"
#include "common/run/slot_plan.h"
#include "tests/support/numbered_samples.h"
#include "tests/support/tickets.h"

namespace dslide::report_check_test {
namespace {

constexpr Incarnation kWorker{5};
constexpr double kWeight = 4;

struct Fixture {
  Fixture() {
    run.config.train.batch = 4;
    ResolveConfig(50, 10, &run.config);
    run.train = &data;
    run.lease_keys.receipts = testing::kReceiptKey;
    plan = EqualPlan(3, run.config.cluster.slots, {{"a", "a", {1}}, {"b", "b", {2}}});
    done.samples = 4;
    done.loss_sum = 9;
    done.loss_parts = {kUnknownLossPart, 0};
    done.receipts = Receipts(plan, kWorker);
  }
  std::vector<uint64_t> Receipts(const Plan& of, Incarnation worker) const {
    return ReceiptsOf(run.lease_keys.receipts, of, run.config.cluster, worker, LeaseKind::kTrain,
                      done.batch, done.loss_parts);
  }
  std::string Why() const {
    return FaultOf(done, LeaseKind::kTrain, kWorker, plan, kWeight, run).why;
  }
  // Whether a report that `change` was made to is refused.
  bool Refuses(const std::function<void(BatchDone*)>& change) {
    const BatchDone good = done;
    change(&done);
    const bool refused = !Why().empty();
    done = good;
    return refused;
  }

  Dataset data = NumberedSamples(50, 10);
  RunContext run;
  Plan plan;
  BatchDone done;
};

TEST_CASE_FIXTURE(Fixture, "reports: only with the receipts of all servers, for this worker") {
  CHECK(Why().empty());
  Plan other = plan;
  SUBCASE("none") { done.receipts.clear(); }
  SUBCASE("another worker's") { done.receipts = Receipts(plan, {6}); }
  SUBCASE("of another plan") {
    other.version = 4;
    done.receipts = Receipts(other, kWorker);
  }
  SUBCASE("of one server") {
    done.receipts[1] = 0;
    const ReportFault fault = FaultOf(done, LeaseKind::kTrain, kWorker, plan, kWeight, run);
    CHECK(fault.servers == std::vector<Incarnation>{{2}});  // the other one has given its own
  }
  SUBCASE("of another batch") { done.batch.unit++; }
  CHECK(Why() == "has not the receipts of all servers");
}

TEST_CASE_FIXTURE(Fixture, "reports: figures that no batch can have are refused") {
  CHECK(Refuses([](BatchDone* d) { d->samples = 5; }));
  CHECK(Refuses([](BatchDone* d) { d->loss_sum = -5; }));
  CHECK(Refuses([](BatchDone* d) { d->loss_sum = 1e300; }));
  CHECK(Refuses([](BatchDone* d) { d->loss_sum = std::numeric_limits<double>::infinity(); }));
  CHECK(Refuses([](BatchDone* d) { d->loss_sum = std::nan(""); }));
  CHECK(Refuses([](BatchDone* d) { d->active_rows = 11; }));
  CHECK(Refuses([](BatchDone* d) { d->active_neurons_sum = 41; }));
  CHECK(Refuses([](BatchDone* d) { d->probed = 5; }));
  CHECK(Refuses([](BatchDone* d) { d->recall_set = 0.5; }));  // of no samples
  CHECK(Refuses([](BatchDone* d) { d->probed = 1, d->recall_hash = 1.5; }));
  CHECK(Refuses([](BatchDone* d) { d->probed = 1, d->recall_uniform = -0.5; }));
  CHECK(Refuses([](BatchDone* d) { d->tail_error = -0.5; }));
  CHECK_FALSE(Refuses([](BatchDone* d) { d->loss_sum = -1e-6; }));  // rounding
  CHECK_FALSE(Refuses([](BatchDone* d) { d->loss_sum = 1e9; }));    // the model diverges
  CHECK_FALSE(Refuses([](BatchDone* d) { d->active_rows = 10, d->active_neurons_sum = 40; }));
  CHECK_FALSE(Refuses([](BatchDone* d) { d->probed = 2, d->recall_set = 2, d->tail_error = 9; }));
}

TEST_CASE_FIXTURE(Fixture, "reports: what is shown is at most as wrong as a model can be") {
  done.loss_sum = 1e9;
  done.bytes_sent = done.bytes_received = std::numeric_limits<uint64_t>::max();
  done.bytes_by_kind.assign(kBodyKinds, std::numeric_limits<uint32_t>::max());
  done.tail_error = 1e30;
  const BatchDone shown = Bounded(done, kWeight, run);
  CHECK(shown.loss_sum == doctest::Approx(kWeight * (104 + std::log(10.0))));
  CHECK(shown.bytes_sent == kMaxMessageBytes);
  CHECK(shown.bytes_received == kMaxMessageBytes);
  CHECK(shown.bytes_by_kind[3] == kMaxMessageBytes);
  CHECK(shown.tail_error == 0);
  done.loss_sum = -1e-6;
  CHECK(Bounded(done, kWeight, run).loss_sum == 0);
  run.config.model.loss = Loss::kSigmoid;
  done.loss_sum = 1e9;
  CHECK(Bounded(done, kWeight, run).loss_sum == doctest::Approx(kWeight * 10 * 104));
}

TEST_CASE_FIXTURE(Fixture, "reports: the loss is the sum of the servers' parts") {
  done.loss_parts = {7, 2.001};
  done.receipts = Receipts(plan, kWorker);
  CHECK(Why().empty());
  CHECK(Bounded(done, kWeight, run).loss_sum == doctest::Approx(9.001));
  SUBCASE("another loss than theirs is an offence") {
    for (const double loss : {-3.9, 0.0, 8.5, 9.5}) {
      done.loss_sum = loss;
      CHECK(Why().starts_with("reports a loss of "));
      CHECK(FaultOf(done, LeaseKind::kTrain, kWorker, plan, kWeight, run).is_loss);
    }
  }
  SUBCASE("nobody but a server can tell its part") {
    done.loss_parts = {7, 1};
    CHECK(Why() == "has not the receipts of all servers");
    done.loss_parts = {2.001, 7};
    CHECK(Why() == "has not the receipts of all servers");
  }
  SUBCASE("every server tells its part") {
    for (const std::vector<double>& parts : {{}, {7}, std::vector<double>{7, 2.001, 0}}) {
      done.loss_parts = parts;
      done.receipts = Receipts(plan, kWorker);
      CHECK(Why() == "has not the receipts of all servers");
    }
  }
  SUBCASE("where a server does not know, the worker's is shown") {
    done.loss_parts = {7, kUnknownLossPart};
    done.loss_sum = 5;
    done.receipts = Receipts(plan, kWorker);
    CHECK(Why().empty());
    CHECK(Bounded(done, kWeight, run).loss_sum == 5);
  }
}

TEST_CASE_FIXTURE(Fixture, "reports: of an evaluation only the receipts count") {
  done.loss_sum = 1e300;
  done.loss_parts.clear();
  done.receipts = ReceiptsOf(run.lease_keys.receipts, plan, run.config.cluster, kWorker,
                             LeaseKind::kEvaluate, done.batch, {});
  CHECK(FaultOf(done, LeaseKind::kEvaluate, kWorker, plan, kWeight, run).why.empty());
  CHECK_FALSE(Why().empty());
}

TEST_CASE("reports: whose were believed by the newest plan") {
  Believed believed;
  believed.Note(2, {1}, true);
  CHECK_FALSE(believed.ByAnother(2, {1}));
  CHECK(believed.ByAnother(2, {2}));
  CHECK_FALSE(believed.ByAnother(1, {2}));
  believed.Note(3, {1}, false);
  CHECK_FALSE(believed.ByAnother(3, {2}));
  CHECK(believed.Nobodys(3, 1));
  CHECK_FALSE(believed.Nobodys(3, 2));
  believed.Note(3, {1}, false);
  CHECK_FALSE(believed.Nobodys(3, 2));
  believed.Note(3, {2}, false);
  CHECK(believed.Nobodys(3, 2));
  CHECK_FALSE(believed.Nobodys(4, 2));
  believed.Note(2, {2}, true);  // late
  CHECK(believed.Nobodys(3, 2));
  believed.Note(3, {3}, true);
  CHECK_FALSE(believed.Nobodys(3, 3));
}

}  // namespace
}  // namespace dslide::report_check_test
