// How a worker's batches wait for steps in synchronous training.
#include "tests/support/events.h"
#include "tests/worker/worker_fixture.h"
#include "worker/events.h"

namespace dslide::worker_steps_test {
namespace {

// 50 batches an epoch in steps of 4; units of one batch.
Config StepConfig(int32_t staleness = 0) {
  Config config;
  config.train.batch = 2;
  config.train.target_batch = 8;
  config.train.staleness = staleness;
  config.train.batches_in_flight = 2;
  return config;
}

struct Synchronous : WorkerFixture {
  explicit Synchronous(int32_t staleness = 0) : WorkerFixture(1, StepConfig(staleness)) {
    REQUIRE(config.train.unit_batches == 1);
    JoinAndPlan();
  }
  // The lease of batch `number` of epoch 1, whose steps are 13 and on.
  Outbox Lease(uint32_t number) { return Requests(Scheduler(Grant(1, LeaseKind::kTrain, number))); }
  Outbox Reply(const WorkerCore::Outgoing& request) {
    return Requests(Server(request, Answer(request.message.body)));
  }
  static uint32_t UnitOf(const WorkerCore::Outgoing& request) {
    if (const auto* push = std::get_if<EmbedPush>(&request.message.body)) return push->batch.unit;
    if (const auto* query = std::get_if<ActiveQuery>(&request.message.body)) {
      return query->batch.unit;
    }
    return As<EmbedRequest>(request).batch.unit;
  }
  static std::vector<uint32_t> UnitsOf(const Outbox& requests) {
    std::vector<uint32_t> units;
    for (const auto& request : requests) units.push_back(UnitOf(request));
    return units;
  }
};

TEST_CASE_FIXTURE(Synchronous, "synchronous: a batch of a later step does not go with a push") {
  const Outbox first = Lease(2), second = Lease(3);
  CHECK(UnitsOf(first) == std::vector<uint32_t>{2});
  CHECK(UnitsOf(second) == std::vector<uint32_t>{3});
  CHECK(Lease(4).empty());  // no room
  Outbox requests = Reply(Reply(first[0])[0]);
  // Batch 4 is of the next step: its request waits at the server until batch 2 counts.
  REQUIRE(UnitsOf(requests) == std::vector<uint32_t>{2, 4});
  CHECK_FALSE(As<EmbedPush>(requests[0]).next);
  CHECK(As<EmbedRequest>(requests[1]).batch.unit == 4);
  CHECK(Reply(requests[0]).empty());
  CHECK(ToScheduler<BatchDone>(last).size() == 1);
}

TEST_CASE_FIXTURE(Synchronous, "synchronous: a batch of the same step goes with a push") {
  const Outbox first = Lease(0);
  (void)Lease(1);
  CHECK(Lease(2).empty());
  const Outbox push = Reply(Reply(first[0])[0]);
  REQUIRE(UnitsOf(push) == std::vector<uint32_t>{0});
  REQUIRE(As<EmbedPush>(push[0]).next);
  CHECK(As<EmbedPush>(push[0]).next->batch.unit == 2);
}

TEST_CASE_FIXTURE(Synchronous,
                  "synchronous: batches of an earlier step start though later ones wait") {
  CHECK(UnitsOf(Lease(5)) == std::vector<uint32_t>{5});
  CHECK(UnitsOf(Lease(6)) == std::vector<uint32_t>{6});
  CHECK(Lease(7).empty());  // two of that step are in flight
  // Somebody left batch 1 of the step before; all flights wait for it.
  const Outbox first = Lease(1);
  REQUIRE(UnitsOf(first) == std::vector<uint32_t>{1});
  CHECK(UnitsOf(Lease(2)) == std::vector<uint32_t>{2});
  CHECK(Lease(3).empty());
  const Outbox push = Reply(Reply(first[0])[0]);
  REQUIRE(UnitsOf(push) == std::vector<uint32_t>{1});
  CHECK(As<EmbedPush>(push[0]).next->batch.unit == 3);  // before 7, which came first
}

TEST_CASE_FIXTURE(Synchronous, "synchronous: a worker whose batches all wait asks for leases") {
  (void)Scheduler(Grant(1, LeaseKind::kTrain, 4));
  (void)Lease(5);
  (void)Lease(6);
  (void)Lease(7);
  (void)Lease(8);
  // Three are queued and two wait, yet it asks: a unit of the open step may be left.
  CHECK(ToScheduler<LeaseRequest>(last).size() == 1);
  (void)Scheduler(LeaseWait{100, false});
  CHECK(ToScheduler<LeaseRequest>(Tick(200)).size() == 1);

  Config asynchronous;
  asynchronous.train.batches_in_flight = 2;
  WorkerFixture other(1, asynchronous);
  other.JoinAndPlan();
  CHECK(ToScheduler<LeaseRequest>(other.Scheduler(Grant(5))).empty());
  CHECK(ToScheduler<LeaseRequest>(other.Tick(200)).empty());
}

TEST_CASE_FIXTURE(Synchronous,
                  "synchronous: once a batch is under way it asks no more than it needs") {
  const Outbox first = Lease(4);
  for (const uint32_t number : {5, 6, 7, 8, 9}) (void)Lease(number);
  (void)Reply(first[0]);  // the step is open
  (void)Scheduler(LeaseWait{100, false});
  CHECK(ToScheduler<LeaseRequest>(Tick(300)).empty());
}

const std::vector<EventField> kStops = {{"again", false}, {"why", "this worker stops"}};

TEST_CASE_FIXTURE(Synchronous, "synchronous: a stopped worker does not wait for steps to open") {
  (void)Lease(4);
  (void)Lease(5);
  core.RequestStop();
  // Nothing of these batches is done anywhere, and nobody else may be left to open their step.
  const auto effects = Tick(1000);
  CHECK(effects.failed_batches.size() == 2);
  CHECK(Has(effects.failed_batches, event::kBatchFailed, kStops));
  REQUIRE(effects.exit);
  CHECK(effects.exit->ok());
}

TEST_CASE_FIXTURE(Synchronous, "synchronous: a stopped worker finishes what is under way") {
  const Outbox first = Lease(0), second = Lease(1);
  CHECK(Lease(2).empty());
  Outbox requests = Reply(first[0]);
  core.RequestStop();
  auto effects = Tick(1000);  // batch 1 was not answered
  CHECK(effects.failed_batches.size() == 1);
  CHECK(Has(effects.failed_batches, event::kBatchFailed, kStops));
  CHECK_FALSE(effects.exit);
  CHECK(Reply(second[0]).empty());  // late
  requests = Reply(requests[0]);
  REQUIRE(UnitsOf(requests) == std::vector<uint32_t>{0});
  CHECK_FALSE(As<EmbedPush>(requests[0]).next);
  (void)Reply(requests[0]);
  CHECK(ToScheduler<BatchDone>(last).size() == 1);
  Acknowledge(last);
  CHECK(Tick(1001).exit);
}

TEST_CASE_FIXTURE(Synchronous,
                  "synchronous: of a push and its next batch a stopped worker finishes the push") {
  const Outbox first = Lease(0);
  (void)Lease(1);
  (void)Lease(2);
  const Outbox push = Reply(Reply(first[0])[0]);
  REQUIRE(As<EmbedPush>(push[0]).next);
  core.RequestStop();
  const auto effects = Tick(1000);
  CHECK(effects.failed_batches.size() == 2);
  CHECK(Has(effects.failed_batches, event::kBatchFailed, kStops));
  CHECK_FALSE(effects.exit);
  CHECK(Reply(push[0]).empty());
  REQUIRE(ToScheduler<BatchDone>(last).size() == 1);
  CHECK(ToScheduler<BatchDone>(last)[0].batch.unit == 0);
  Acknowledge(last);
  CHECK(Tick(1001).exit);
}

TEST_CASE("synchronous: with staleness too, batches of later steps go alone") {
  Synchronous f(2);
  const Outbox first = f.Lease(3);
  (void)f.Lease(4);
  (void)f.Lease(5);
  const Outbox push = f.Reply(f.Reply(first[0])[0]);
  REQUIRE_FALSE(push.empty());
  CHECK_FALSE(As<EmbedPush>(push[0]).next);
}

}  // namespace
}  // namespace dslide::worker_steps_test
