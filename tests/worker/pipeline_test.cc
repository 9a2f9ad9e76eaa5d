// How a worker's batches share messages, wait for steps and choose their precision.
#include <map>
#include <numeric>
#include <set>

#include "common/base/random.h"
#include "common/config/step.h"
#include "tests/worker/worker_fixture.h"

namespace dslide {
namespace {

using Outbox = std::vector<WorkerCore::Outgoing>;

struct OneServer : WorkerFixture {
  OneServer() : WorkerFixture(1) { JoinAndPlan(); }
};
struct TwoServers : WorkerFixture {
  TwoServers() : WorkerFixture(2) { JoinAndPlan(); }
};

template <typename T>
const T& As(const WorkerCore::Outgoing& request) {
  REQUIRE(std::holds_alternative<T>(request.message.body));
  return std::get<T>(request.message.body);
}

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
    REQUIRE(done.bytes_by_kind.size() == std::variant_size_v<Body>);
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
  // Neither batch 0 nor batch 2 is asked for again: only batch 1.
  void CheckOnlyBatchOneIsLeft() {
    const Outbox again = Requests(Tick(config.cluster.request_timeout_ms));
    CHECK(again.size() == 2);
    for (const auto& request : again) CHECK(As<EmbedRequest>(request).batch.index == 1);
  }
};

TEST_CASE("an error, or what is no reply to a push, gives it and its next batch up") {
  for (const Body& bad : {Body{ErrorReply{ErrorCode::kRefused, "no"}}, Body{ActiveReply{}},
                          Body{GradientReply{Matrix(2, WorkerFixture::kHidden)}}}) {
    CAPTURE(BodyName(bad));
    Combined first;
    CHECK(first.Server(first.pushes[0], bad).notices.size() == 2);
    // What the other server says of them is late, and neither is reported.
    CHECK(first.Good(1).send.empty());
    first.CheckOnlyBatchOneIsLeft();
    Combined second;
    CHECK(second.Good(0).send.empty());
    const auto effects = second.Server(second.pushes[1], bad);
    CHECK(effects.notices.size() == 2);
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
    CHECK(only.notices.size() == 2);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(only).empty());
    CHECK(WorkerFixture::Requests(alone.Tick(alone.config.cluster.request_timeout_ms)).size() == 1);
  }
}

TEST_CASE(
    "a mere Ack to a push with a next batch, or a misshapen EmbedReply, fails only the next") {
  const std::string refused = "a batch is given up: a takes no more batches";
  for (const Body& reply : {Body{Ack{}}, Body{EmbedReply{Matrix(7, WorkerFixture::kHidden)}}}) {
    CAPTURE(BodyName(reply));
    const bool ack = std::holds_alternative<Ack>(reply);
    Combined first;
    auto effects = first.Server(first.pushes[0], reply);
    REQUIRE(effects.notices.size() == 1);
    if (ack) CHECK(effects.notices[0] == refused);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).empty());
    // The other server's reply completes the push, whatever it says of the next batch.
    effects = first.Good(1);
    CHECK(effects.notices.empty());
    CHECK(WorkerFixture::Requests(effects).empty());
    REQUIRE(WorkerFixture::ToScheduler<BatchDone>(effects).size() == 1);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects)[0].batch.index == 0);
    first.CheckOnlyBatchOneIsLeft();

    Combined second;
    CHECK(second.Good(1).send.empty());
    effects = second.Server(second.pushes[0], reply);
    REQUIRE(effects.notices.size() == 1);
    if (ack) CHECK(effects.notices[0] == refused);
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).size() == 1);
    CHECK(WorkerFixture::Requests(effects).empty());
    second.CheckOnlyBatchOneIsLeft();

    Combined both;
    CHECK(both.Server(both.pushes[0], reply).notices.size() == 1);
    effects = both.Server(both.pushes[1], reply);
    CHECK(effects.notices.empty());
    CHECK(WorkerFixture::ToScheduler<BatchDone>(effects).size() == 1);
    both.CheckOnlyBatchOneIsLeft();
  }
}

TEST_CASE_FIXTURE(Combined, "a push whose next batch failed can still fail") {
  CHECK(Server(pushes[0], Ack{}).notices.size() == 1);
  const auto effects = Server(pushes[1], ErrorReply{ErrorCode::kUnknownBatch, "no"});
  CHECK(effects.notices == std::vector<std::string>{"a batch is given up: b: no"});
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

TEST_CASE_FIXTURE(Synchronous, "synchronous: a stopped worker does not wait for steps to open") {
  (void)Lease(4);
  (void)Lease(5);
  core.RequestStop();
  // Nothing of these batches is done anywhere, and nobody else may be left to open their step.
  const auto effects = Tick(1000);
  CHECK(effects.notices == std::vector<std::string>(2, "a batch is given up: this worker stops"));
  REQUIRE(effects.exit);
  CHECK(effects.exit->ok());
}

TEST_CASE_FIXTURE(Synchronous, "synchronous: a stopped worker finishes what is under way") {
  const Outbox first = Lease(0), second = Lease(1);
  CHECK(Lease(2).empty());
  Outbox requests = Reply(first[0]);
  core.RequestStop();
  auto effects = Tick(1000);  // batch 1 was not answered
  CHECK(effects.notices == std::vector<std::string>{"a batch is given up: this worker stops"});
  CHECK_FALSE(effects.exit);
  CHECK(Reply(second[0]).empty());  // late
  requests = Reply(requests[0]);
  REQUIRE(UnitsOf(requests) == std::vector<uint32_t>{0});
  CHECK_FALSE(As<EmbedPush>(requests[0]).next);
  (void)Reply(requests[0]);
  CHECK(ToScheduler<BatchDone>(last).size() == 1);
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
  CHECK(effects.notices == std::vector<std::string>(2, "a batch is given up: this worker stops"));
  CHECK_FALSE(effects.exit);
  CHECK(Reply(push[0]).empty());
  REQUIRE(ToScheduler<BatchDone>(last).size() == 1);
  CHECK(ToScheduler<BatchDone>(last)[0].batch.unit == 0);
  CHECK(Tick(1001).exit);
}

TEST_CASE_FIXTURE(OneServer, "a stopped worker in asynchronous training finishes all its batches") {
  Outbox open = Requests(Scheduler(Grant(2)));
  core.RequestStop();
  CHECK(Tick(1000).notices.empty());
  CHECK_FALSE(last.exit);
  size_t reports = 0;
  while (!open.empty()) {
    const auto request = open.front();
    open.erase(open.begin());
    for (const auto& more : Requests(Server(request, Answer(request.message.body)))) {
      open.push_back(more);
    }
    reports += ToScheduler<BatchDone>(last).size();
  }
  CHECK(reports == 2);
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

// Workers with leases of a whole epoch before servers that hold requests back until their step is
// open, as real ones do: whatever order replies and leases come in, all batches are done.
void RunSteps(uint64_t seed, int32_t staleness) {
  CAPTURE(seed);
  CAPTURE(staleness);
  Random random(seed);
  Synchronous f(staleness);
  const TrainConfig& train = f.config.train;
  constexpr uint32_t kBatches = 30;
  std::vector<uint32_t> leases(kBatches);
  std::iota(leases.begin(), leases.end(), 0u);
  std::set<uint32_t> done;
  uint64_t committed = StepOf({1, 0, 0}, train, 100);
  Outbox open;
  const auto take = [&](const WorkerCore::Effects& effects) {
    for (const auto& request : WorkerFixture::Requests(effects)) {
      open.push_back(request);
      // No flight may wait for its own push.
      const auto* push = std::get_if<EmbedPush>(&request.message.body);
      if (push != nullptr && push->next) {
        REQUIRE(StepOf(push->next->batch, train, 100) <= StepOf(push->batch, train, 100));
      }
    }
    for (const auto& report : WorkerFixture::ToScheduler<BatchDone>(effects)) {
      REQUIRE(done.insert(report.batch.unit).second);
    }
    while (true) {  // the scheduler commits complete steps
      const StepExtent extent = ExtentOfStep(committed, train, 100);
      uint64_t complete = 0;
      for (uint64_t n = 0; n < extent.batches; ++n) {
        complete += done.contains(static_cast<uint32_t>(extent.first_batch - 50 + n));
      }
      if (extent.first_batch - 50 >= kBatches || complete < extent.batches) break;
      ++committed;
    }
  };
  const auto held = [&](const WorkerCore::Outgoing& request) {
    const auto* embed = std::get_if<EmbedRequest>(&request.message.body);
    return embed != nullptr &&
           StepOf(embed->batch, train, 100) > committed + static_cast<uint64_t>(staleness);
  };
  for (int turn = 0; turn < 3000 && done.size() < kBatches - 2; ++turn) {
    // The scheduler leases those of the open steps and of one more, in any order.
    std::vector<size_t> leasable;
    for (size_t i = 0; i < leases.size(); ++i) {
      const uint64_t step = StepOf({1, leases[i], 0}, train, 100);
      if (step <= committed + static_cast<uint64_t>(staleness) + 1) leasable.push_back(i);
    }
    if (!leasable.empty() && random.Below(2) == 0) {
      const size_t pick = leasable[random.Below(leasable.size())];
      take(f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, leases[pick])));
      leases.erase(leases.begin() + static_cast<ptrdiff_t>(pick));
      continue;
    }
    std::vector<size_t> answerable;
    for (size_t i = 0; i < open.size(); ++i) {
      if (!held(open[i])) answerable.push_back(i);
    }
    if (answerable.empty()) {
      REQUIRE_FALSE(leasable.empty());  // or it is a deadlock
      continue;
    }
    const size_t pick = answerable[random.Below(answerable.size())];
    const auto request = open[pick];
    open.erase(open.begin() + static_cast<ptrdiff_t>(pick));
    take(f.Server(request, WorkerFixture::Answer(request.message.body)));
  }
  CHECK(done.size() >= kBatches - 2);  // the last step lacks two
}

TEST_CASE("synchronous: whatever order leases and replies come in, no worker waits for itself") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const int32_t staleness : {0, 1}) RunSteps(seed, staleness);
  }
}

// A server behind a link: trains batches one after another, each message takes the round trip and
// its bytes' time on the link. The worker is idle for `pause_ms` between two batches.
struct MeteredLink {
  WorkerFixture f;
  uint32_t unit = 0;

  explicit MeteredLink(Config config) : f(1, std::move(config)) {
    f.now = 1;
    f.JoinAndPlan(1'000'000);
  }
  // Returns the precision of the last request.
  WirePrecision Train(int64_t until_ms, int64_t pause_ms) {
    constexpr size_t kRequest[] = {40000, 100000, 100000}, kReply[] = {100000, 100000, 200};
    constexpr size_t kBytesPerMs = 1000;  // 8 Mbit/s
    WirePrecision precision = WirePrecision::kFp32;
    while (f.now < until_ms) {
      Outbox requests =
          WorkerFixture::Requests(f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, unit++)));
      for (int stage = 0; stage < 3; ++stage) {
        REQUIRE(requests.size() == 1);
        precision = requests[0].precision;
        CHECK(requests[0].message.envelope.reply_precision == precision);
        f.core.NoteSent(requests[0].message, kRequest[stage]);
        f.now += 20 + static_cast<int64_t>((kRequest[stage] + kReply[stage]) / kBytesPerMs);
        requests = WorkerFixture::Requests(
            f.Server(requests[0], WorkerFixture::Answer(requests[0].message.body), kReply[stage]));
      }
      f.now += pause_ms;
    }
    return precision;
  }
  uint32_t Int8Links() {
    (void)f.Tick(f.now);
    (void)f.Scheduler(HeartbeatReply{});
    const auto beats = WorkerFixture::ToScheduler<Heartbeat>(f.Tick(f.now + 2000));
    REQUIRE(beats.size() == 1);
    return beats[0].int8_links;
  }
};

TEST_CASE("wire = auto: a link that bytes keep busy gets int8, one that is idle bf16 again") {
  MeteredLink link{Config()};
  CHECK(link.Train(3000, 0) == WirePrecision::kBf16);  // nothing is known yet
  CHECK(link.Train(10000, 0) == WirePrecision::kInt8);
  CHECK(link.Int8Links() == 1);
  CHECK(link.Train(20000, 0) == WirePrecision::kInt8);
  CHECK(link.Train(35000, 1000) == WirePrecision::kInt8);  // between the two bounds it stays
  CHECK(link.Train(120000, 9000) == WirePrecision::kBf16);
  CHECK(link.Int8Links() == 0);
}

TEST_CASE("replies to requests that were sent again tell nothing of the link") {
  // They come right after the repetition: an answer to which of the two?
  Config config;
  config.cluster.request_timeout_ms = 500;
  WorkerFixture f(1, config);
  f.JoinAndPlan();
  for (uint32_t unit = 0; unit < 20; ++unit) {
    Outbox requests =
        WorkerFixture::Requests(f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, unit)));
    for (int stage = 0; stage < 3; ++stage) {
      REQUIRE(requests.size() == 1);
      (void)f.Scheduler(HeartbeatReply{});
      const Outbox again =
          WorkerFixture::Requests(f.Tick(f.now + f.config.cluster.request_timeout_ms));
      REQUIRE(again.size() == 1);
      f.core.NoteSent(again[0].message, 1000);
      f.now += 1;
      requests = WorkerFixture::Requests(f.Server(
          again[0], WorkerFixture::Answer(again[0].message.body), stage == 1 ? 100 : 90000));
    }
  }
  const auto beats = WorkerFixture::ToScheduler<Heartbeat>(f.Tick(f.now + 2000));
  REQUIRE(beats.size() == 1);
  CHECK(beats[0].bits_per_second == 0);
}

TEST_CASE("wire = auto: a quick link stays in bf16; a configured precision and steps stay theirs") {
  MeteredLink idle{Config()};
  CHECK(idle.Train(30000, 4000) == WirePrecision::kBf16);
  for (const auto& [wire, precision] : {std::pair{Wire::kBf16, WirePrecision::kBf16},
                                        {Wire::kFp32, WirePrecision::kFp32},
                                        {Wire::kInt8, WirePrecision::kInt8}}) {
    Config config;
    config.cluster.wire = wire;
    MeteredLink fixed{config};
    CHECK(fixed.Train(20000, 0) == precision);
    CHECK(fixed.Train(40000, 4000) == precision);
  }
  Config synchronous;
  synchronous.train.staleness = 0;
  MeteredLink steps{synchronous};
  CHECK(steps.Train(30000, 0) == WirePrecision::kBf16);
}

TEST_CASE("wire = auto: a request that is sent again keeps the precision it had") {
  MeteredLink link{Config()};
  // A request of the time before int8 that stays without reply.
  const Outbox old =
      WorkerFixture::Requests(link.f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, 9999)));
  REQUIRE(old.size() == 1);
  CHECK(old[0].precision == WirePrecision::kBf16);
  CHECK(link.Train(10000, 0) == WirePrecision::kInt8);
  const Outbox again =
      WorkerFixture::Requests(link.f.Tick(link.f.now + link.f.config.cluster.request_timeout_ms));
  REQUIRE(again.size() == 1);
  CHECK(again[0].precision == WirePrecision::kBf16);
  CHECK(again[0].message == old[0].message);
}

}  // namespace
}  // namespace dslide
