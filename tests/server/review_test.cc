// Scratch: proofs for a review.
#include <algorithm>

#include "tests/server/server_fixture.h"
#include "tests/server/slot_move.h"
#include "tests/server/training_run.h"

namespace dslide {
namespace {

constexpr Incarnation kSelf = ServerFixture::kSelf, kOther{8};
constexpr RunId kRun = ServerFixture::kRun;

struct Rev : ServerFixture {
  Rev() {
    config.cluster.balance = Balance::kOff;
    Load();
  }
  Plan Next(const std::vector<uint32_t>& own) {
    Plan next = plan;
    next.version = plan.version + 1;
    next.generation = 1;
    std::fill(next.slot_owner.begin(), next.slot_owner.end(), uint16_t{0});
    for (const uint32_t slot : own) next.slot_owner[slot] = 1;
    return next;
  }
  ServerCore::Effects Flip(const Plan& next) {
    plan = next;
    version = next.version;
    return Scheduler(next);
  }
  ServerCore::Effects Do(const ServerCore::Effects& effects) {
    ServerCore::Effects all;
    std::vector<ServerCore::Work> work = effects.work;
    for (size_t i = 0; i < work.size(); ++i) {
      if (!work[i].job) continue;
      (void)core.HandleOutcome({work[i].ticket, 0, Ack{}}, 1000 * now);
      auto more = core.HandleOutcome({work[i].ticket, 1, Ack{}}, 1000 * now);
      work.insert(work.end(), more.work.begin(), more.work.end());
      all.work.insert(all.work.end(), more.work.begin(), more.work.end());
      for (auto& m : more.to_scheduler) all.to_scheduler.push_back(m);
      for (auto& m : more.to_servers) all.to_servers.push_back(m);
      for (auto& m : more.to_workers) all.to_workers.push_back(m);
    }
    return all;
  }
  ServerCore::Effects PullFrom(SlotPull pull, uint32_t plan_version, Incarnation who = kOther) {
    return core.HandleWorker("peer", {{kRun, who, ++sequence, 0, plan_version}, pull}, 1000 * now);
  }
  ServerCore::Effects Answer(const Message& pull, Body body) {
    return core.HandleServer({{kRun, kOther, ++sequence, pull.envelope.sequence, version}, body},
                             1000 * now);
  }
};

TEST_CASE_FIXTURE(Rev, "rev1: WrongRun in answer to a drain is no refusal") {
  now = 1000;
  const auto asked = core.RequestStop(now);
  const uint64_t drain = Sent<DrainServer>(asked).at(0).envelope.sequence;
  now = 2500;
  const auto effects = Scheduler(ErrorReply{ErrorCode::kWrongRun, "not in the roster"}, drain);
  CHECK(Sent<CheckpointNow>(effects).empty());
  CHECK(Sent<Join>(effects).size() == 1);
}

TEST_CASE_FIXTURE(Rev, "rev2a: a measurement that was rejected is taken again") {
  const auto first = Tick(1000).measure;
  REQUIRE(first);
  (void)core.Reject(first->ticket, 1000);
  CHECK(Tick(2000).measure);
}

TEST_CASE_FIXTURE(Rev, "rev2b: a flip that the executors never get does not pass silently") {
  const auto flip = Flip(Next({6, 7}));
  REQUIRE(flip.work.size() == 2);  // kFlip, kAttach
  CHECK(flip.work[0].job->kind == SlotJob::Kind::kFlip);
  const auto rejected = core.Reject(flip.work[0].ticket, now);
  CHECK((rejected.unload || rejected.exit || !rejected.work.empty()));
  (void)core.HandleOutcome({flip.work[1].ticket, 0, Ack{}}, 0);
  const auto done = core.HandleOutcome({flip.work[1].ticket, 1, Ack{}}, 0);
  CHECK(Sent<Ready>(done).empty());
}

TEST_CASE_FIXTURE(Rev, "rev3: a pull that came before the plan is answered as soon as it flips") {
  CHECK(PullFrom({4, 0, false, 1000, false}, 2).work.empty());
  const auto flip = Flip(Next({2, 3, 6, 7}));  // 4 and 5 go, 2 and 3 come
  const auto pulls = std::count_if(flip.work.begin(), flip.work.end(), [](const auto& w) {
    return w.request && std::holds_alternative<SlotPull>(*w.request);
  });
  CHECK(pulls == 1);
}

TEST_CASE_FIXTURE(Rev, "rev4: a release by an earlier plan does not let go of a later departure") {
  (void)Do(Flip(Next({5, 6, 7})));  // 4 goes, plan 2
  (void)Do(PullFrom({4, 0, false, 0, true}, 2));
  // Back again, plan 3.
  auto back = Flip(Next({4, 5, 6, 7}));
  (void)Do(back);
  for (const auto& [address, pull] : back.to_servers) {
    SlotRows rows;
    rows.slot = 4;
    rows.part = std::get<SlotPull>(pull.body).part;
    rows.last = true;
    (void)Do(Answer(pull, rows));
  }
  REQUIRE(core.plan_version() == 3);
  (void)Do(Flip(Next({5, 6, 7})));  // and away, plan 4
  REQUIRE(core.plan_version() == 4);
  const auto late = PullFrom({4, 0, false, 0, true}, 2);  // repeated by the owner of plan 2
  CHECK(late.work.empty());
}

TEST_CASE_FIXTURE(Rev, "rev5: putting rows holds back pulling" * doctest::should_fail()) {
  const auto effects = Scheduler(MoveSlots{1, {2}, {0}, 0});
  (void)Do(effects);
  REQUIRE(effects.to_servers.size() == 1);
  Message pull = effects.to_servers[0].second;
  size_t puts = 0;
  for (; puts < 2000; ++puts) {  // the executors are busy with something else
    SlotRows rows;
    rows.slot = 2;
    rows.part = std::get<SlotPull>(pull.body).part;
    rows.left = 10;
    if (puts > 0) {
      rows.rows = {0};
      rows.ends = {10};
      rows.bytes.resize(10);
    }
    auto next = Answer(pull, rows);
    if (puts == 0) next = Tick(SlotIntake::kWatchMs);
    if (next.to_servers.empty()) break;
    pull = next.to_servers[0].second;
  }
  MESSAGE("puts under way: ", puts, " open: ", core.requests());
  CHECK(puts < 200);
  CHECK(core.AcceptsRequests());
}

struct Alone : ServerFixture {
  Alone() {
    config.cluster.balance = Balance::kOff;
    plan = EqualPlan(1, config.cluster.slots, {{"server", "a", kSelf}});
    Load();
  }
};

TEST_CASE_FIXTURE(Alone, "rev6: the second round of a query that a flip overtook") {
  ActiveQuery query;
  query.batch = {0, 0, 0};
  query.hidden = Matrix(1, 4);
  query.finish = true;
  const auto asked = core.HandleWorker("peer", Request(7, query), 0);
  REQUIRE(asked.work.size() == 1);
  Plan next = plan;
  next.version = 2;
  next.generation = 1;
  next.servers.push_back({"server-2", "b", {8}});
  version = 2;
  const auto flip = Scheduler(next);
  REQUIRE(flip.work.size() >= 1);
  CHECK(flip.work[0].job->kind == SlotJob::Kind::kFlip);
  ActiveReply part;
  part.max = {0.0f};
  part.sum_exp = {1.0f};
  part.target_logit = {0.0f};
  part.loss = {0.0f};
  part.active = {1};
  (void)core.HandleOutcome({asked.work[0].ticket, 0, part}, 0);
  const auto second = core.HandleOutcome({asked.work[0].ticket, 1, part}, 0);
  CHECK(second.work.empty());  // it would come behind the flip: UnknownBatch
  REQUIRE(second.to_workers.size() == 1);
  CHECK(std::get<ErrorReply>(Decode(second.to_workers[0].second)->body).code ==
        ErrorCode::kStalePlan);
}

TEST_CASE("rev7: an older round of hash functions is ignored" * doctest::should_fail()) {
  const RunKind hashed = {OptimizerKind::kAdaGrad, false, true, false};
  const Config config = RunConfig(hashed);
  LocalCluster cluster(config, kRunSamples, {1});
  Executor* executor = cluster.executors()[0];
  (void)executor->Handle({1}, RebuildTables{2, 2});
  TrainRun(&cluster, 0, 48);
  REQUIRE(executor->output().hashing() == HashChoice{2, 2});
  (void)executor->Handle({1}, RebuildTables{1, 1});
  TrainRun(&cluster, 48, 96);
  CHECK(executor->output().hashing() == HashChoice{2, 2});
}

struct Inner : ServerFixture {
  Inner() {
    config.cluster.balance_threshold = 1.1f;
    Load();
  }
};

TEST_CASE_FIXTURE(Inner, "rev8: an own pull that finds no memory does not end the process") {
  const auto measure = Tick(1000).measure;
  REQUIRE(measure);
  for (uint32_t e = 0; e < 2; ++e) {
    Heartbeat beat;
    LoadReport load;
    load.batches = 10;
    load.busy = {0.5f};
    for (uint32_t i = 0; i < 2; ++i) {
      load.slots.push_back(4 + 2 * e + i);
      load.executor.push_back(0);
      load.retrieved.push_back(1);
      load.used.push_back(1);
      load.updated.push_back(1);
      load.work.push_back(e == 0 ? 100.0f : 1.0f);
      load.service_us.push_back(1);
      load.bytes.push_back(1);
    }
    beat.load = load;
    (void)core.HandleOutcome({measure->ticket, e, beat}, 1000000);
  }
  Plan next = plan;
  next.version = 2;
  next.generation = 1;
  version = 2;
  const auto flip = Scheduler(next);
  const ServerCore::Work* own = nullptr;
  for (const auto& work : flip.work) {
    if (work.request && std::holds_alternative<SlotPull>(*work.request)) own = &work;
  }
  REQUIRE(own != nullptr);
  const ErrorReply error{ErrorCode::kRefused, "the server is out of memory"};
  (void)core.HandleOutcome({own->ticket, 0, error}, 0);
  CHECK_NOTHROW((void)core.HandleOutcome({own->ticket, 1, Ack{}}, 0));
}

}  // namespace
}  // namespace dslide
