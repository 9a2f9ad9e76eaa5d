#include "worker/worker_core.h"
#include "tests/support/events.h"

#include <algorithm>
#include <cmath>

#include "common/run/step.h"
#include "tests/worker/worker_fixture.h"
#include "worker/events.h"

namespace dslide::worker_core_test {
namespace {

using Fixture = WorkerFixture;

constexpr RunId kRun = Fixture::kRun;
constexpr uint32_t kServers = 2, kHidden = Fixture::kHidden;

TEST_CASE_FIXTURE(Fixture, "a worker joins, dials the servers and asks for work") {
  const auto start = core.Start(0);
  CHECK(ToScheduler<Join>(start).at(0).role == Role::kWorker);
  CHECK(ToScheduler<Join>(start).at(0).name == "w");
  CHECK_FALSE(core.joined());
  CHECK(Tick(1999).send.empty());
  CHECK(ToScheduler<Join>(Tick(2000)).size() == 1);
  (void)Scheduler(JoinReply{"worker", FormatConfig(config), 100});
  CHECK(core.joined());
  const auto effects = Scheduler(plan);
  CHECK(effects.connect == plan);
  CHECK(ToScheduler<LeaseRequest>(effects).size() == 1);
  CHECK(effects.send[0].message.envelope.run == kRun);
  CHECK(effects.send[0].message.envelope.plan_version == 1);
}

TEST_CASE_FIXTURE(Fixture, "a worker asks again until it has a plan, and leaves in the end") {
  (void)core.Start(1000 * 1000);
  CHECK(Tick(2500).send.empty());  // not joined, nothing due
  REQUIRE(Tick(3100).send.size() == 1);
  CHECK(std::holds_alternative<Join>(last.send[0].message.body));
  (void)Scheduler(JoinReply{"worker", FormatConfig(config), 100});  // the plan is lost
  bool asked = false;
  for (const auto& out : Tick(6000).send) asked |= std::holds_alternative<Join>(out.message.body);
  CHECK(asked);
  CHECK_FALSE(Tick(3100 + 60'000).exit.has_value());
  REQUIRE(Tick(3101 + 60'000).exit.has_value());
  CHECK(last.exit->error().kind == ErrorKind::kTryLater);
}

TEST_CASE_FIXTURE(Fixture, "a lease becomes requests, and replies in any order a report") {
  JoinAndPlan();
  auto requests = Requests(Scheduler(Grant(1)));
  for (int stage = 0; stage < 4; ++stage) {
    REQUIRE(requests.size() == kServers);
    for (const auto& request : requests) {
      core.NoteSent(request.message, 1000);
    }
    if (stage % 2 == 1) std::reverse(requests.begin(), requests.end());
    CHECK(Requests(Server(requests[0], Answer(requests[0].message.body))).empty());
    // A repeated reply, and one that names no request, change nothing.
    CHECK(Server(requests[0], Answer(requests[0].message.body)).send.empty());
    CHECK(core.Handle(0, {{kRun, {8}, 1, 99999, 1}, Ack{}}, 1, 0).send.empty());
    requests = Requests(Server(requests[1], Answer(requests[1].message.body)));
  }
  CHECK(requests.empty());
  const auto reports = ToScheduler<BatchDone>(last);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].lease == 3);
  CHECK(reports[0].batch == BatchId{1, 2, 0});
  CHECK(reports[0].samples == 2);
  CHECK(reports[0].active_neurons_sum == 2 * 2 * 4);
  CHECK(reports[0].active_rows == 10);
  // log(4 e) - 0.5 a sample.
  CHECK(reports[0].loss_sum == doctest::Approx(2 * (1 + std::log(4.0) - 0.5)));
  CHECK(reports[0].bytes_sent == 8 * 1000);
  CHECK(reports[0].bytes_received == 8 * 100);
}

TEST_CASE_FIXTURE(Fixture, "no more batches are started than may be in flight") {
  JoinAndPlan();
  const auto effects = Scheduler(Grant(5));
  CHECK(Requests(effects).size() == 2 * kServers);
  CHECK(ToScheduler<LeaseRequest>(effects).empty());  // three wait, that is enough
}

TEST_CASE("while the learning rate rises, a worker has one batch in flight") {
  const BatchId first{1, 2, 0};  // of Grant()
  struct Case {
    uint64_t further;    // batches of the warm-up from the first one granted
    uint32_t in_flight;  // train.batches_in_flight
    LeaseKind kind;
    size_t begun;
  };
  const Case cases[] = {
      {0, 0, LeaseKind::kTrain, 2}, {2, 0, LeaseKind::kTrain, 1},    {3, 0, LeaseKind::kTrain, 1},
      {3, 3, LeaseKind::kTrain, 3}, {3, 0, LeaseKind::kEvaluate, 2},
  };
  for (const Case& c : cases) {
    CAPTURE(c.further);
    CAPTURE(c.in_flight);
    Fixture one;
    TrainConfig& train = one.config.train;
    train.batch = 2;
    train.epochs = 1000;
    train.batches_in_flight = c.in_flight;
    train.warmup_batches = static_cast<uint32_t>(BatchNumber(first, train, 100) + c.further);
    one.JoinAndPlan();
    const auto effects = one.Scheduler(Fixture::Grant(5, c.kind));
    CHECK(Fixture::Requests(effects).size() == c.begun * kServers);
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "while its owner holds it, a worker begins nothing and asks for nothing") {
  JoinAndPlan();
  core.Hold(true, 0);
  auto requests = Requests(Scheduler(Grant(5)));
  CHECK(requests.empty());
  CHECK(Tick(1000).send.size() == 1);  // a heartbeat
  core.Hold(false, 0);
  requests = Requests(Tick(1001));
  CHECK(requests.size() == 2 * kServers);
  // What has begun goes on, alone.
  core.Hold(true, 0);
  for (const auto& request : requests) {
    for (const auto& sent : Requests(Server(request, Answer(request.message.body)))) {
      CHECK_FALSE(std::holds_alternative<EmbedRequest>(sent.message.body));
    }
  }
  CHECK(ToScheduler<LeaseRequest>(Tick(1002)).empty());
}

TEST_CASE_FIXTURE(Fixture, "whoever is held for longer than a lease lasts asks for another one") {
  for (const bool longer : {false, true}) {
    Fixture one;
    one.JoinAndPlan();
    one.core.Hold(true, 0);
    (void)one.Scheduler(Grant(2));
    one.now = one.config.cluster.lease_timeout_ms + (longer ? 1 : 0);
    (void)one.Scheduler(HeartbeatReply{});
    one.core.Hold(false, 0);
    const auto effects = one.Tick(one.now + 1);
    CHECK(Requests(effects).size() == (longer ? 0 : 2 * kServers));
    CHECK(ToScheduler<LeaseRequest>(effects).size() == 1);
  }
}

TEST_CASE_FIXTURE(Fixture, "a server that refuses everything does not make a worker lease more") {
  JoinAndPlan();
  auto requests = Requests(Scheduler(Grant(5)));
  // The second batch stays in flight, the others are refused as soon as they begin.
  for (int refused = 1; refused <= 4; ++refused) {
    REQUIRE_FALSE(requests.empty());
    Server(requests[0], ErrorReply{ErrorCode::kRefused, "no"});
    CHECK(ToScheduler<LeaseRequest>(last).empty());
    const auto effects = Tick(now + 1);
    CHECK(ToScheduler<LeaseRequest>(effects).empty());
    requests = Requests(effects);
  }
  CHECK(requests.empty());
}

TEST_CASE_FIXTURE(Fixture, "the owner's cap of batches in flight counts beside the scheduler's") {
  JoinAndPlan();
  core.Hold(false, 1);
  CHECK(Requests(Scheduler(Grant(5))).size() == kServers);
  core.Hold(false, 0);
  CHECK(Requests(Tick(1)).size() == kServers);
}

TEST_CASE_FIXTURE(Fixture, "a dismissal says whether the run is done") {
  for (const uint32_t code : {0u, 85u}) {
    Fixture f;
    f.JoinAndPlan();
    const auto effects = f.Scheduler(Shutdown{"over", code});
    CHECK(effects.dismissed == code);
    CHECK(effects.exit->ok() == (code == 0));
    if (code != 0) CHECK(effects.exit->error().kind == ErrorKind::kPreempted);
  }
}

TEST_CASE_FIXTURE(Fixture, "after a server's error or senseless reply the batch begins again") {
  Matrix huge(2, kHidden);  // numbers that no model gives
  huge.data.assign(huge.data.size(), 3e38f);
  for (const Body& bad : {Body{ErrorReply{ErrorCode::kRefused, "full"}}, Body{Ack{}},
                          Body{EmbedReply{Matrix(3, kHidden)}}, Body{EmbedReply{huge}}}) {
    Fixture f;
    f.JoinAndPlan();
    const auto requests = Requests(f.Scheduler(Grant(1)));
    CHECK(f.Server(requests[0], bad).failed_batches.size() == 1);
    CHECK(f.last.send.empty());
    CHECK(f.Server(requests[1], Answer(requests[1].message.body)).send.empty());
    CHECK(Requests(f.Tick(299)).empty());
    const auto again = Requests(f.Tick(300));
    REQUIRE(again.size() == kServers);
    CHECK(again[0].message.body == requests[0].message.body);
    CHECK(Requests(f.Tick(301)).empty());
  }
}

TEST_CASE("a worker whose dense layers have diverged tells the scheduler, and ends") {
  Config deep;
  deep.model.dense = {WorkerFixture::kHidden};
  WorkerFixture f(1, deep);
  f.JoinAndPlan();
  const auto requests = WorkerFixture::Requests(f.Scheduler(WorkerFixture::Grant(1)));
  REQUIRE(requests.size() == 1);
  LayerRows rows{{21, 22, 23, 24}, Matrix(4, WorkerFixture::kHidden)};
  rows.values.data.assign(rows.values.data.size(), 2.0f);
  Matrix large(2, WorkerFixture::kHidden);
  large.data.assign(large.data.size(), 0x1p58f);
  (void)f.Server(requests[0], EmbedReply{large, rows});
  const auto told = WorkerFixture::ToScheduler<ErrorReply>(f.last);
  REQUIRE(told.size() == 1);
  CHECK(told[0].text ==
        "training diverged: batch 1.2.0: the dense layers give numbers that are out of range; "
        "lower train.learning_rate and go on from an earlier checkpoint");
  REQUIRE(f.last.exit.has_value());
  CHECK(f.last.exit->error().kind == ErrorKind::kFailed);
  CHECK(f.last.exit->error().message == told[0].text);
  CHECK(f.last.failed_batches.empty());
}

TEST_CASE("an evaluation asks for the dense layers again after another epoch") {
  Config deep;
  deep.model.dense = {WorkerFixture::kHidden};
  WorkerFixture f(1, deep);
  f.JoinAndPlan();
  const auto evaluate = [&](uint32_t epoch, uint32_t unit) {
    LeaseGrant grant = WorkerFixture::Grant(1, LeaseKind::kEvaluate, unit);
    grant.epoch = epoch;
    Outbox requests = WorkerFixture::Requests(f.Scheduler(grant));
    REQUIRE(requests.size() == 1);
    const auto& embed = As<EmbedRequest>(requests[0]);
    auto reply = std::get<EmbedReply>(WorkerFixture::EmbedAnswer(embed));
    if (embed.dense) {
      reply.dense = LayerRows{{21, 22, 23, 24}, Matrix(4, WorkerFixture::kHidden)};
    }
    requests = WorkerFixture::Requests(f.Server(requests[0], reply));
    REQUIRE(requests.size() == 1);
    f.Acknowledge(f.Server(requests[0], WorkerFixture::Answer(requests[0].message.body)));
    CHECK(WorkerFixture::ToScheduler<BatchDone>(f.last).size() == 1);
    return embed.dense;
  };
  CHECK(evaluate(1, 0));
  CHECK_FALSE(evaluate(1, 1));  // another batch of the lease
  CHECK(evaluate(2, 0));        // a lease with the same number
}

TEST_CASE_FIXTURE(Fixture, "statistics that no model gives are not reported") {
  JoinAndPlan();
  auto requests = Requests(Scheduler(Grant(1)));
  for (uint32_t s = 0; s < kServers; ++s)
    (void)Server(requests[s], Answer(requests[s].message.body));
  requests = Requests(last);
  auto reply = std::get<ActiveReply>(Answer(requests[0].message.body));
  reply.target_logit.assign(2, -3e38f);
  CHECK(Server(requests[0], reply).send.empty());
  CHECK(Has(last.failed_batches, event::kBatchFailed, {{"again", true}}));
}

TEST_CASE_FIXTURE(Fixture, "a batch that another worker drove out at a server is given up") {
  JoinAndPlan();
  const auto requests = Requests(Scheduler(Grant(1)));
  Server(requests[0], ErrorReply{ErrorCode::kUnknownBatch, "gone"});
  CHECK(Has(last.failed_batches, event::kBatchFailed, {{"again", false}, {"why", "a: gone"}}));
  CHECK(Requests(Tick(config.cluster.request_timeout_ms)).empty());
  CHECK(Requests(Scheduler(Grant(1))).size() == kServers);  // it can be leased again
}

TEST_CASE_FIXTURE(Fixture, "a batch that fails time and again is given up before its lease ends") {
  JoinAndPlan();
  auto requests = Requests(Scheduler(Grant(1)));
  int64_t began_ms = now;
  for (const int64_t wait_ms : {300, 1200, 4800, 19200}) {
    Server(requests[0], ErrorReply{ErrorCode::kRefused, "no"});
    CHECK(Has(last.failed_batches, event::kBatchFailed, {{"again", true}, {"why", "a: no"}}));
    CHECK(Requests(Tick(began_ms + wait_ms - 1)).empty());
    requests = Requests(Tick(began_ms += wait_ms));
    REQUIRE(requests.size() == kServers);
  }
  Server(requests[0], ErrorReply{ErrorCode::kRefused, "no"});
  CHECK(Has(last.failed_batches, event::kBatchFailed, {{"again", false}, {"why", "a: no"}}));
  CHECK(Requests(Tick(began_ms + 30000)).empty());
  CHECK(began_ms < config.cluster.lease_timeout_ms);
  CHECK(Requests(Scheduler(Grant(1))).size() == kServers);  // it can be leased again
}

TEST_CASE_FIXTURE(Fixture, "a stopped worker finishes its flights, starts none, and leaves") {
  JoinAndPlan();
  auto requests = Requests(Scheduler(Grant(4)));
  core.RequestStop();
  CHECK_FALSE(Tick(1).exit);
  for (int stage = 0; stage < 4; ++stage) {
    std::vector<WorkerCore::Outgoing> next;
    for (const auto& request : requests) {
      for (const auto& out : Requests(Server(request, Answer(request.message.body)))) {
        next.push_back(out);
      }
      Acknowledge(last);
    }
    requests = next;
  }
  CHECK(requests.empty());
  const auto effects = Tick(2);
  REQUIRE(effects.exit);
  CHECK(effects.exit->ok());
  CHECK(ToScheduler<Leave>(core.Goodbye({})).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a stopped worker does not wait for ever for a server that is missing") {
  JoinAndPlan();
  (void)Scheduler(Grant(4));
  (void)Tick(1000);
  core.RequestStop();
  (void)Tick(5000);
  core.RequestStop();  // repeated
  CHECK_FALSE(Tick(1000 + WorkerCore::kStopMs - 1).exit);
  const auto effects = Tick(1000 + WorkerCore::kStopMs);
  REQUIRE(effects.exit);
  CHECK(effects.exit->ok());
  CHECK(Has(effects.notices, event::kBatchesUnfinished));
  CHECK(ToScheduler<Leave>(core.Goodbye({})).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "what the scheduler's refusals do") {
  SUBCASE("a refused join is for later") {
    (void)core.Start(0);
    CHECK(Scheduler(ErrorReply{ErrorCode::kRefused, "no"}).exit->error().kind ==
          ErrorKind::kTryLater);
  }
  SUBCASE("another version is for good") {
    (void)core.Start(0);
    CHECK(Scheduler(ErrorReply{ErrorCode::kIncompatible, "old"}).exit->error().kind ==
          ErrorKind::kBadInput);
  }
  SUBCASE("a scheduler that does not know the worker is joined again, without its batches") {
    JoinAndPlan();
    (void)Scheduler(Grant(1));
    CHECK_FALSE(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}).exit);
    CHECK_FALSE(core.joined());
    CHECK(ToScheduler<Join>(Tick(now + 2000)).size() == 1);
    (void)Scheduler(JoinReply{"worker", FormatConfig(config), 100});
    CHECK(ToScheduler<LeaseRequest>(Scheduler(plan)).size() == 1);
    CHECK(Requests(Scheduler(Grant(1))).size() == kServers);
  }
  SUBCASE("a configuration that it does not understand") {
    CHECK_FALSE(Scheduler(JoinReply{"worker", "[model]\nhiden = 3\n", 100}).exit->ok());
  }
}

TEST_CASE_FIXTURE(Fixture, "senseless plans are ignored") {
  (void)core.Start(0);
  (void)Scheduler(JoinReply{"worker", FormatConfig(config), 100});
  CHECK_FALSE(Scheduler(Plan{1, {}, {0}}).connect);
  CHECK_FALSE(Scheduler(Plan{1, {{"a", "tcp://a"}}, {}}).connect);
  CHECK_FALSE(Scheduler(Plan{1, {{"a", "tcp://a"}}, {0, 1}}).connect);
}

}  // namespace
}  // namespace dslide::worker_core_test
