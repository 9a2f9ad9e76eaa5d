// A worker when slots move: plans of the same generation.
#include "tests/worker/worker_fixture.h"

namespace dslide::worker_moves_test {
namespace {

struct Moves : WorkerFixture {
  Moves() {
    plan.servers[0].incarnation = {100};
    plan.servers[1].incarnation = {101};
    JoinAndPlan();
  }
  // The next plan of the generation.
  Plan Next() const {
    Plan next = plan;
    next.version = plan.version + 1;
    next.generation = 1;
    next.slot_owner[0] = 1;
    return next;
  }
  WorkerCore::Effects SwitchPlan(const Plan& next) {
    plan = next;
    return Scheduler(next, 0, next.version);
  }
  static std::vector<uint32_t> Batches(const WorkerCore::Effects& effects) {
    std::vector<uint32_t> batches;
    for (const auto& request : Requests(effects)) {
      const auto* embed = std::get_if<EmbedRequest>(&request.message.body);
      if (embed != nullptr && request.to == 0) batches.push_back(embed->batch.index);
    }
    return batches;
  }
  // Answers all requests; the batches that were reported.
  std::vector<uint32_t> TrainAll(const WorkerCore::Effects& effects) {
    std::vector<uint32_t> done;
    for (const BatchDone& report : AnswerAll(Requests(effects))) done.push_back(report.batch.index);
    return done;
  }
};

using Indices = std::vector<uint32_t>;

TEST_CASE_FIXTURE(Moves, "moves: with the next plan a worker keeps its leases, and begins anew") {
  const auto begun = Scheduler(Grant(5));
  CHECK(Batches(begun) == Indices{0, 1});
  const auto first = Requests(begun);
  (void)Server(first[0], Answer(first[0].message.body));
  const auto plan_switch = SwitchPlan(Next());
  REQUIRE(plan_switch.connect);
  CHECK(plan_switch.connect->version == 2);
  CHECK(Batches(plan_switch) == Indices{0, 1});
  for (const auto& request : Requests(plan_switch)) {
    CHECK(request.message.envelope.plan_version == 2);
    // Not a repetition: servers would answer it from what they have stored.
    for (const auto& before : first) {
      CHECK(request.message.envelope.sequence != before.message.envelope.sequence);
    }
  }
  // Answers to the older requests are nobody's.
  CHECK(Server(first[1], Answer(first[1].message.body)).send.empty());
  CHECK(Server(first[2], ErrorReply{ErrorCode::kStalePlan, "2"}).notices.empty());
  CHECK(TrainAll(plan_switch) == Indices{0, 1, 2, 3, 4});
}

TEST_CASE_FIXTURE(Moves, "moves: a plan that a server sends makes a worker ask, not obey") {
  const auto begun = Requests(Scheduler(Grant(5)));
  (void)Tick(5000);  // with a heartbeat
  Plan forged = Next();
  forged.version = 4'000'000'000;
  const auto effects = Server(begun[0], forged);
  CHECK_FALSE(effects.connect);
  CHECK(ToScheduler<Heartbeat>(Tick(5100)).size() == 1);
  REQUIRE(SwitchPlan(Next()).connect);
  CHECK_FALSE(Server(begun[0], plan).connect);  // it has that one
  CHECK(ToScheduler<Heartbeat>(Tick(5200)).empty());
}

TEST_CASE_FIXTURE(Moves, "moves: reports that the scheduler has not seen are sent again") {
  CHECK(TrainAll(Scheduler(Grant(1))) == Indices{0});
  (void)SwitchPlan(Next());
  const auto again = Tick(config.cluster.request_timeout_ms);
  REQUIRE(ToScheduler<BatchDone>(again).size() == 1);
  for (const auto& out : again.send) {
    if (!std::holds_alternative<BatchDone>(out.message.body)) continue;
    CHECK(out.message.envelope.plan_version == 1);  // by which the batch was trained
  }
}

TEST_CASE_FIXTURE(Moves, "moves: leases by an earlier plan of the generation are taken") {
  (void)SwitchPlan(Next());
  (void)SwitchPlan(Next());
  CHECK(Batches(Scheduler(Grant(1), 0, 2)) == Indices{0});
  CHECK(Batches(Scheduler(Grant(1, LeaseKind::kTrain, 3), 0, 1)) == Indices{0});
  CHECK(Batches(Scheduler(Grant(1, LeaseKind::kTrain, 4), 0, 4)).empty());
  plan.version = plan.generation = 9;  // a recovery
  (void)Scheduler(plan, 0, 9);
  CHECK(Batches(Scheduler(Grant(1, LeaseKind::kTrain, 5), 0, 3)).empty());
}

TEST_CASE_FIXTURE(Moves, "moves: a batch that was refused for the plan waits for no other") {
  const auto requests = Requests(Scheduler(Grant(1)));
  CHECK(Requests(Server(requests[1], ErrorReply{ErrorCode::kStalePlan, "2"})).empty());
  CHECK(Batches(SwitchPlan(Next())) == Indices{0});
  CHECK(Requests(Tick(1000)).empty());  // once
}

TEST_CASE_FIXTURE(Moves, "moves: what is known of a link goes with its server") {
  const auto link = [&](int64_t at) {
    const auto beats = ToScheduler<Heartbeat>(Tick(at));
    REQUIRE(beats.size() == 1);
    return beats[0].round_trip_us;
  };
  std::vector<WorkerCore::Outgoing> requests = Requests(Scheduler(Grant(20)));
  for (size_t i = 0; i < requests.size(); ++i) {
    now += 50;
    const bool query = std::holds_alternative<ActiveQuery>(requests[i].message.body);
    const size_t bytes = query ? 20'000 : 100;  // what tells latency from bandwidth
    for (const auto& out : Requests(Server(requests[i], Answer(requests[i].message.body), bytes))) {
      requests.push_back(out);
    }
  }
  const uint32_t before = link(now + 2000);
  REQUIRE(before > 0);
  Plan next = Next();
  std::swap(next.servers[0], next.servers[1]);
  (void)SwitchPlan(next);
  CHECK(link(now + 2000) == before);
  next = Next();
  next.servers.erase(next.servers.begin());
  std::fill(next.slot_owner.begin(), next.slot_owner.end(), uint16_t{0});
  next.servers[0].incarnation = {102};
  (void)SwitchPlan(next);
  CHECK(link(now + 2000) == 0);  // another server: nothing is known
}

TEST_CASE_FIXTURE(Moves,
                  "moves: a worker that is held ends what is in flight, and says so at once") {
  auto requests = Requests(Scheduler(Grant(5)));
  (void)Tick(1000);  // with a heartbeat
  CHECK(Scheduler(HeartbeatReply{0, 800}).send.empty());
  CHECK(TrainAll(Tick(1010)).empty());
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(ToScheduler<Heartbeat>(Tick(1020)).empty());
    const auto more = Requests(Server(requests[i], Answer(requests[i].message.body)));
    for (const auto& request : more) {
      requests.push_back(request);
      const auto* push = std::get_if<EmbedPush>(&request.message.body);
      if (push != nullptr) CHECK_FALSE(push->next);
    }
    CHECK(Batches(last).empty());  // none begins
  }
  const auto idle = ToScheduler<Heartbeat>(Tick(1020));
  REQUIRE(idle.size() == 1);
  CHECK(idle[0].batches_in_flight == 0);
  CHECK(Tick(1030).send.empty());  // once
  SUBCASE("the plan ends it") { CHECK(Batches(SwitchPlan(Next())) == Indices{2, 3}); }
  SUBCASE("the plan that it has ends it when it comes again") {
    CHECK(Scheduler(plan, 0, plan.version).send.empty());
    CHECK(Batches(Tick(1031)) == Indices{2, 3});
  }
  SUBCASE("the scheduler ends it, with another reply") {
    (void)Scheduler(HeartbeatReply{});
    CHECK(Batches(Tick(1031)) == Indices{2, 3});
  }
  SUBCASE("time ends it") {
    CHECK(Requests(Tick(1799)).empty());
    CHECK(Batches(Tick(1800)) == Indices{2, 3});
  }
  SUBCASE("it is said again when it is held again") {
    (void)Scheduler(HeartbeatReply{});
    (void)Scheduler(HeartbeatReply{0, 800});
    CHECK(ToScheduler<Heartbeat>(Tick(1040)).size() == 1);
  }
}

TEST_CASE_FIXTURE(Moves, "moves: the scheduler's cap on batches in flight is obeyed") {
  (void)Scheduler(HeartbeatReply{1});
  const auto begun = Scheduler(Grant(4));
  CHECK(Batches(begun) == Indices{0});
  CHECK(ToScheduler<Heartbeat>(Tick(1000)).at(0).in_flight_limit == 1);
  SUBCASE("also after a plan") { CHECK(Batches(SwitchPlan(Next())) == Indices{0}); }
  SUBCASE("lifted") {
    (void)Scheduler(HeartbeatReply{0});
    CHECK(Batches(Tick(1001)) == Indices{1});
  }
  SUBCASE("one above its own limit changes nothing") {
    (void)Scheduler(HeartbeatReply{50});
    CHECK(Batches(Tick(1001)) == Indices{1});
  }
  SUBCASE("batches in flight above a new cap are finished") {
    (void)Scheduler(HeartbeatReply{0});
    (void)Tick(1001);
    (void)Scheduler(HeartbeatReply{1});
    CHECK(Requests(Tick(1002)).empty());
    CHECK(core.joined());
  }
}

}  // namespace
}  // namespace dslide::worker_moves_test
