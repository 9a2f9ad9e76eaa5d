// How a worker's batches share messages.
#include <map>
#include <numeric>
#include <set>

#include "common/base/random.h"
#include "common/run/step.h"
#include "tests/support/events.h"
#include "tests/worker/worker_fixture.h"
#include "worker/events.h"

namespace dslide::pipeline_test {
namespace {

struct TwoServers : WorkerFixture {
  TwoServers() : WorkerFixture(2) { JoinAndPlan(); }
};

TEST_CASE_FIXTURE(OneServer,
                  "a push carries the next batch's first request, its reply advances both") {
  const Outbox first = Requests(Scheduler(Grant(3)));
  REQUIRE(first.size() == 2);  // two may be in flight
  CHECK(As<EmbedRequest>(first[0]).batch.index == 0);
  CHECK(As<EmbedRequest>(first[1]).batch.index == 1);
  const Outbox query = Requests(Server(first[0], Answer(first[0].message.body)));
  REQUIRE(query.size() == 1);
  CHECK(As<ActiveQuery>(query[0]).finish);
  const Outbox push = Requests(Server(query[0], Answer(query[0].message.body)));
  REQUIRE(push.size() == 1);
  CHECK(As<EmbedPush>(push[0]).batch.index == 0);
  REQUIRE(As<EmbedPush>(push[0]).next);
  CHECK(As<EmbedPush>(push[0]).next->batch.index == 2);
  CHECK(As<EmbedPush>(push[0]).next->training);
  CHECK(As<EmbedPush>(push[0]).next->features == As<EmbedRequest>(first[0]).features);
  const auto effects = Server(push[0], Answer(push[0].message.body));
  const auto reports = ToScheduler<BatchDone>(effects);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].batch.index == 0);
  const Outbox next = Requests(effects);
  REQUIRE(next.size() == 1);
  CHECK(As<ActiveQuery>(next[0]).batch.index == 2);
}

TEST_CASE_FIXTURE(OneServer, "a push without a next batch is answered by an Ack") {
  Outbox requests = Requests(Scheduler(Grant(1)));
  for (int stage = 0; stage < 3; ++stage) {
    REQUIRE(requests.size() == 1);
    if (stage == 2) CHECK_FALSE(As<EmbedPush>(requests[0]).next);
    requests = Requests(Server(requests[0], Answer(requests[0].message.body)));
  }
  CHECK(ToScheduler<BatchDone>(last).size() == 1);
}

TEST_CASE_FIXTURE(TwoServers, "with several servers the next batch waits for all their replies") {
  Outbox requests = Requests(Scheduler(Grant(3)));
  REQUIRE(requests.size() == 4);
  requests.resize(2);  // batch 0, both servers
  for (int stage = 0; stage < 3; ++stage) {
    CHECK(Requests(Server(requests[0], Answer(requests[0].message.body))).empty());
    requests = Requests(Server(requests[1], Answer(requests[1].message.body)));
    REQUIRE(requests.size() == 2);
  }
  for (const auto& request : requests) CHECK(As<EmbedPush>(request).next->batch.index == 2);
  CHECK(Server(requests[1], Answer(requests[1].message.body)).send.empty());
  const auto effects = Server(requests[0], Answer(requests[0].message.body));
  CHECK(ToScheduler<BatchDone>(effects).size() == 1);
  REQUIRE(Requests(effects).size() == 2);
  for (const auto& request : Requests(effects)) {
    CHECK(As<ActiveQuery>(request).batch.index == 2);
    CHECK_FALSE(As<ActiveQuery>(request).finish);
  }
}

TEST_CASE_FIXTURE(OneServer, "evaluations go alone") {
  Outbox requests = Requests(Scheduler(Grant(1)));
  requests = Requests(Server(requests[0], Answer(requests[0].message.body)));
  (void)Scheduler(Grant(3, LeaseKind::kEvaluate, 5));
  const Outbox push = Requests(Server(requests[0], Answer(requests[0].message.body)));
  REQUIRE(push.size() == 2);
  CHECK_FALSE(As<EmbedPush>(push[0]).next);
  CHECK_FALSE(As<EmbedRequest>(push[1]).training);
}

// Goes through everything that is asked of it until nothing is left; each message has a size of its
// own, which the worker is told.
void CheckBytes(uint32_t servers) {
  CAPTURE(servers);
  WorkerFixture f(servers);
  f.JoinAndPlan();
  std::map<size_t, uint64_t> by_kind;  // over all batches
  uint64_t sent = 0, received = 0;
  size_t size = 1000;
  const auto note = [&](const Outbox& requests) {
    for (const auto& request : requests) {
      f.core.NoteSent(request.message, size += 7);
      sent += size;
      by_kind[request.message.body.index()] += size;
    }
  };
  Outbox open = WorkerFixture::Requests(f.Scheduler(WorkerFixture::Grant(6)));
  note(open);
  std::vector<BatchDone> reports;
  while (!open.empty()) {
    const auto request = open.front();
    open.erase(open.begin());
    const Body reply = WorkerFixture::Answer(request.message.body);
    received += size += 13;
    by_kind[reply.index()] += size;
    const auto effects = f.Server(request, reply, size);
    for (const auto& done : WorkerFixture::ToScheduler<BatchDone>(effects)) reports.push_back(done);
    const Outbox more = WorkerFixture::Requests(effects);
    note(more);
    open.insert(open.end(), more.begin(), more.end());
  }
  REQUIRE(reports.size() == 6);
  std::map<size_t, uint64_t> reported;
  uint64_t reported_sent = 0, reported_received = 0;
  for (const BatchDone& done : reports) {
    REQUIRE(done.bytes_by_kind.size() == kBodyKinds);
    uint64_t sum = 0;
    for (size_t kind = 0; kind < done.bytes_by_kind.size(); ++kind) {
      sum += done.bytes_by_kind[kind];
      if (done.bytes_by_kind[kind] > 0) reported[kind] += done.bytes_by_kind[kind];
    }
    CHECK(sum == done.bytes_sent + done.bytes_received);
    reported_sent += done.bytes_sent;
    reported_received += done.bytes_received;
  }
  CHECK(reported == by_kind);
  CHECK(reported_sent == sent);
  CHECK(reported_received == received);
}

TEST_CASE("the bytes that batches report by kind are all that were sent and received") {
  CheckBytes(1);
  CheckBytes(3);
}

// Requests as old as `before`, the newest so far, or older. The rest are of batches that begin
// again.
Outbox SentAgain(const WorkerCore::Effects& effects, const Outbox& before) {
  Outbox again = WorkerFixture::Requests(effects);
  std::erase_if(again, [&](const WorkerCore::Outgoing& request) {
    return request.message.envelope.sequence > before.back().message.envelope.sequence;
  });
  return again;
}

// Batch 0 is about to be pushed to both servers with batch 2, batch 1 waits for its first reply.
struct Combined : WorkerFixture {
  Outbox pushes;

  Combined() : WorkerFixture(2) {
    JoinAndPlan();
    pushes = Requests(Scheduler(Grant(3)));
    pushes.resize(2);
    for (int stage = 0; stage < 2; ++stage) {
      (void)Server(pushes[0], Answer(pushes[0].message.body));
      pushes = Requests(Server(pushes[1], Answer(pushes[1].message.body)));
    }
    // Three stages with two servers.
    (void)Server(pushes[0], Answer(pushes[0].message.body));
    pushes = Requests(Server(pushes[1], Answer(pushes[1].message.body)));
    REQUIRE(pushes.size() == 2);
    for (const auto& push : pushes) {
      REQUIRE(As<EmbedPush>(push).batch.index == 0);
      REQUIRE(As<EmbedPush>(push).next);
      REQUIRE(As<EmbedPush>(push).next->batch.index == 2);
    }
  }
  WorkerCore::Effects Good(size_t server) {
    return Server(pushes[server], Answer(pushes[server].message.body));
  }
  // No request of batch 0 or 2 is sent again: only those of batch 1.
  void CheckOnlyBatchOneIsLeft() {
    const Outbox again = SentAgain(Tick(config.cluster.request_timeout_ms), pushes);
    CHECK(again.size() == 2);
    for (const auto& request : again) CHECK(As<EmbedRequest>(request).batch.index == 1);
  }
};

TEST_CASE("an error, or what is no reply to a push, fails it and its next batch") {
  for (const Body& bad : {Body{ErrorReply{ErrorCode::kRefused, "no"}}, Body{ActiveReply{}},
                          Body{GradientReply{Matrix(2, WorkerFixture::kHidden)}}}) {
    CAPTURE(BodyName(bad));
    Combined first;
    CHECK(first.Server(first.pushes[0], bad).failed_batches.size() == 2);
    // What the other server says of them is late, and neither is reported.
    CHECK(first.Good(1).send.empty());
    first.CheckOnlyBatchOneIsLeft();
    Combined second;
    CHECK(second.Good(0).send.empty());
    const auto effects = second.Server(second.pushes[1], bad);
    CHECK(effects.failed_batches.size() == 2);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).empty());
    second.CheckOnlyBatchOneIsLeft();

    OneServer alone;
    Outbox requests = WorkerFixture::Requests(alone.Scheduler(WorkerFixture::Grant(3)));
    for (int stage = 0; stage < 2; ++stage) {
      requests = WorkerFixture::Requests(
          alone.Server(requests[0], WorkerFixture::Answer(requests[0].message.body)));
    }
    REQUIRE(As<EmbedPush>(requests[0]).next);
    const auto only = alone.Server(requests[0], bad);
    CHECK(only.failed_batches.size() == 2);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(only).empty());
    CHECK(SentAgain(alone.Tick(alone.config.cluster.request_timeout_ms), requests).size() == 1);
  }
}

TEST_CASE(
    "a mere Ack to a push with a next batch, or a misshapen EmbedReply, fails only the next") {
  const std::vector<EventField> refused = {{"again", true}, {"why", "a takes no more batches"}};
  for (const Body& reply : {Body{Ack{}}, Body{EmbedReply{Matrix(7, WorkerFixture::kHidden)}}}) {
    CAPTURE(BodyName(reply));
    const bool ack = std::holds_alternative<Ack>(reply);
    Combined first;
    auto effects = first.Server(first.pushes[0], reply);
    REQUIRE(effects.failed_batches.size() == 1);
    if (ack) CHECK(Has(effects.failed_batches, event::kBatchFailed, refused));
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).empty());
    // The other server's reply completes the push, whatever it says of the next batch.
    effects = first.Good(1);
    CHECK(effects.failed_batches.empty());
    CHECK(WorkerFixture::Requests(effects).empty());
    REQUIRE(WorkerFixture::ToScheduler<BatchDone>(effects).size() == 1);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects)[0].batch.index == 0);
    first.CheckOnlyBatchOneIsLeft();

    Combined second;
    CHECK(second.Good(1).send.empty());
    effects = second.Server(second.pushes[0], reply);
    REQUIRE(effects.failed_batches.size() == 1);
    if (ack) CHECK(Has(effects.failed_batches, event::kBatchFailed, refused));
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).size() == 1);
    CHECK(WorkerFixture::Requests(effects).empty());
    second.CheckOnlyBatchOneIsLeft();

    Combined both;
    CHECK(both.Server(both.pushes[0], reply).failed_batches.size() == 1);
    effects = both.Server(both.pushes[1], reply);
    CHECK(effects.failed_batches.empty());
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).size() == 1);
    both.CheckOnlyBatchOneIsLeft();
  }
}

TEST_CASE("a push that another worker drove out is given up; its next batch begins again") {
  for (const bool last : {false, true}) {
    CAPTURE(last);
    Combined f;
    if (last) CHECK(f.Good(1).send.empty());
    const auto effects = f.Server(f.pushes[0], ErrorReply{ErrorCode::kUnknownBatch, "gone"});
    CHECK(effects.failed_batches.size() == 2);
    CHECK(Has(effects.failed_batches, event::kBatchFailed, {{"again", false}, {"why", "a: gone"}}));
    CHECK(Has(effects.failed_batches, event::kBatchFailed, {{"again", true}}));
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).empty());
    if (!last) CHECK(f.Good(1).send.empty());
    CHECK(WorkerFixture::Requests(f.Tick(299)).empty());
    const Outbox again = WorkerFixture::Requests(f.Tick(300));
    REQUIRE(again.size() == 2);
    for (const auto& request : again) CHECK(As<EmbedRequest>(request).batch.index == 2);
    f.CheckOnlyBatchOneIsLeft();
  }
}

TEST_CASE_FIXTURE(Combined, "a push whose next batch failed can still fail") {
  CHECK(Server(pushes[0], Ack{}).failed_batches.size() == 1);
  const auto effects = Server(pushes[1], ErrorReply{ErrorCode::kUnknownBatch, "no"});
  CHECK(Has(effects.failed_batches, event::kBatchFailed, {{"again", false}, {"why", "b: no"}}));
  CHECK(ToScheduler<BatchDone>(effects).empty());
  CheckOnlyBatchOneIsLeft();
}

TEST_CASE_FIXTURE(OneServer, "a next batch that is refused makes room for another") {
  Outbox requests = Requests(Scheduler(Grant(5)));
  for (int stage = 0; stage < 2; ++stage) {
    requests = Requests(Server(requests[0], Answer(requests[0].message.body)));
  }
  REQUIRE(As<EmbedPush>(requests[0]).next);
  const auto effects = Server(requests[0], Ack{});
  CHECK(ToScheduler<BatchDone>(effects).size() == 1);
  const Outbox next = Requests(Tick(1));
  std::vector<uint32_t> started;
  for (const auto* sent : {&next}) {
    for (const auto& request : *sent) started.push_back(As<EmbedRequest>(request).batch.index);
  }
  CHECK(started == std::vector<uint32_t>{3});
}

TEST_CASE_FIXTURE(OneServer, "a push with a next batch is sent again as it was") {
  Outbox requests = Requests(Scheduler(Grant(3)));
  const auto other = requests[1];
  requests = Requests(Server(requests[0], Answer(requests[0].message.body)));
  requests = Requests(Server(requests[0], Answer(requests[0].message.body)));
  REQUIRE(As<EmbedPush>(requests[0]).next);
  const Outbox again = Requests(Tick(config.cluster.request_timeout_ms));
  REQUIRE(again.size() == 2);
  CHECK(again[0].message == other.message);
  CHECK(again[1].message == requests[0].message);
  const auto effects = Server(again[1], Answer(again[1].message.body));
  CHECK(ToScheduler<BatchDone>(effects).size() == 1);
}

}  // namespace
}  // namespace dslide::pipeline_test
