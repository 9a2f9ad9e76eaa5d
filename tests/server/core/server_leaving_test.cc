// How a server lets go of slots, and leaves.
#include "common/log/events.h"
#include "tests/server/core/moves_fixture.h"
#include "tests/support/events.h"

namespace dslide::server_leaving_test {
namespace {

using Moves = MovesFixture;
constexpr RunId kRun = ServerFixture::kRun;
constexpr Incarnation kWorker = ServerFixture::kWorker;
const std::vector<uint32_t> kSix = {2, 3, 4, 5, 6, 7};

TEST_CASE_FIXTURE(Moves, "moves: releases are repeated until they are acknowledged") {
  CopyColdRows();
  auto releases = PullsOf(TakeOver(Next(kSix)));
  REQUIRE(releases.size() == 2);
  for (const Message& release : releases) CHECK(std::get<SlotPull>(release.body).release);
  (void)Answer(releases[0], Ack{});
  CHECK(Tick(999).to_servers.empty());
  const auto again = PullsOf(Tick(1000));
  REQUIRE(again.size() == 1);
  CHECK(std::get<SlotPull>(again[0].body).slot == std::get<SlotPull>(releases[1].body).slot);
  SUBCASE("the answer comes") {
    (void)Answer(again[0], Ack{});
    CHECK(Tick(60'000).to_servers.empty());
  }
  SUBCASE("a refusal is no answer") {
    (void)Answer(again[0], ErrorReply{ErrorCode::kStalePlan, "3"});
    CHECK(Tick(2000).to_servers.size() == 1);
  }
  SUBCASE("its old owner is gone") {
    size_t sent = 0;
    for (int64_t at = 2000; at < 100'000; at += 500) {
      (void)Scheduler(HeartbeatReply{});
      sent += Tick(at).to_servers.size();
    }
    CHECK(sent < 40);
  }
  SUBCASE("the slot has gone back, and comes again: it must not be released before") {
    (void)Do(SwitchPlan(Next({4, 5, 6, 7})));
    (void)Do(Scheduler(MoveSlots{9, {2, 3}, {0, 0}, 0}));
    for (int64_t at = 2000; at < 6000; at += 500) {
      for (const Message& pull : PullsOf(Tick(at))) {
        CHECK_FALSE(std::get<SlotPull>(pull.body).release);
      }
    }
  }
}

TEST_CASE_FIXTURE(Moves, "moves: slots that go are readable until their new owner lets go") {
  const auto plan_switch = SwitchPlan(Next({6, 7}));
  const auto ready = Do(plan_switch);
  REQUIRE(JobsOf(SlotJob::Kind::kSwitchPlan).size() == 1);
  CHECK(JobsOf(SlotJob::Kind::kSwitchPlan)[0].slots == std::vector<SlotId>{{4}, {5}});
  CHECK(Sent<Ready>(ready).size() == 1);  // nothing comes
  const auto pulled = PullFrom({4, 0, false, 1000, false}, 2);
  REQUIRE(pulled.work.size() == 1);
  CHECK(std::holds_alternative<SlotPull>(*pulled.work[0].request()));
  (void)core.HandleOutcome({pulled.work[0].job_id, 0, Ack{}}, 0);
  SlotRows rows;
  rows.slot = 4;
  rows.last = true;
  const auto answer = Reply(core.HandleOutcome({pulled.work[0].job_id, 1, rows}, 0));
  CHECK(answer.body == Body{rows});
  // It lets go for nobody but its new owner, and of no slot that it has.
  jobs.clear();
  (void)Do(Release(6, 2));
  (void)Do(Release(4, 2, kWorker));
  (void)Do(Release(99, 2));
  CHECK(JobsOf(SlotJob::Kind::kRelease).empty());
  jobs.clear();
  CHECK(std::holds_alternative<Ack>(Answers(Release(4, 2)).at(0).body));
  CHECK(std::holds_alternative<Ack>(Answers(Release(4, 2)).at(0).body));  // again
  (void)Do(Release(5, 2));
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].kind == SlotJob::Kind::kRelease);
  CHECK(jobs[0].slots == std::vector<SlotId>{{5}});
}

TEST_CASE_FIXTURE(Moves, "moves: a pull that finds no executor with the slot is refused") {
  const auto pulled = PullFrom({1, 0, true, 1000, false}, 1);
  REQUIRE(pulled.work.size() == 1);
  (void)core.HandleOutcome({pulled.work[0].job_id, 0, Ack{}}, 0);
  CHECK(Refusal(core.HandleOutcome({pulled.work[0].job_id, 1, Ack{}}, 0)) == ErrorCode::kRefused);
  CHECK(Refusal(PullFrom({4, 0, true, 1000, false}, 1, {99})) == ErrorCode::kRefused);  // who?
}

TEST_CASE_FIXTURE(Moves, "moves: a slot's new owner may let go after it was given on") {
  (void)Do(SwitchPlan(Next({6, 7})));
  Plan next = Next({6, 7});
  next.servers.push_back({"server-3", "c", {30}});
  next.slot_owner[4] = 2;  // server had slot 4 by now
  (void)Do(SwitchPlan(next));
  jobs.clear();
  SUBCASE("by its plan then") { (void)Do(Release(4, 2)); }
  SUBCASE("by the plan now") { (void)Do(Release(4, 3)); }
  SUBCASE("by one that has not come here yet") { (void)Do(Release(4, 4)); }
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].slots == std::vector<SlotId>{{4}});
}

TEST_CASE_FIXTURE(Moves,
                  "moves: a server without a seat ends well once all its slots are others'") {
  auto effects = Do(SwitchPlan(WithoutSelf()));
  CHECK_FALSE(effects.exit);
  CHECK(Sent<Ready>(effects).empty());  // it is none of the plan
  CHECK(Refusal(core.HandleWorker("peer", Request(1, TopKRequest{}, 2), 0)) ==
        ErrorCode::kStalePlan);
  CHECK(PullFrom({4, 0, false, 1000, false}, 2).work.size() == 1);
  for (const uint32_t slot : {4, 5, 6}) {
    effects = Release(slot, 2);
    CHECK_FALSE(effects.exit);
  }
  SUBCASE("the others have gone back to a checkpoint") {
    version = 3;
    effects = Scheduler(Unseat(PlanOf(3, {30})));
  }
  SUBCASE("the scheduler fences it") {
    effects = Scheduler(ErrorReply{ErrorCode::kFenced, "begin a new life"});
  }
  REQUIRE(effects.exit);
  CHECK(effects.exit->ok());
}

TEST_CASE_FIXTURE(Moves, "moves: a signal does not end a server that others still copy from") {
  (void)Do(SwitchPlan(WithoutSelf()));
  CHECK_FALSE(core.RequestStop(1000).exit);
  CHECK_FALSE(Tick(1100).exit);
  CHECK_FALSE(Tick(20'999).exit);
  SUBCASE("until they have its slots") {
    for (const uint32_t slot : {4, 5, 6}) (void)Release(slot, 2);
    const auto exit = Release(7, 2).exit;
    REQUIRE(exit);
    CHECK(exit->ok());
  }
  SUBCASE("or for cluster.drain_s") { CHECK_FALSE(Tick(21'000).exit->ok()); }
}

TEST_CASE_FIXTURE(Moves, "moves: a signal hands the slots over first") {
  now = 1000;
  const auto asked = core.RequestStop(now);
  CHECK_FALSE(asked.exit);
  CHECK(Sent<CheckpointNow>(asked).empty());
  const auto drains = Sent<DrainServer>(asked);
  REQUIRE(drains.size() == 1);
  CHECK(std::get<DrainServer>(drains[0].body).name == "server-2");
  (void)Scheduler(Ack{}, drains[0].envelope.sequence);
  CHECK(Sent<DrainServer>(Tick(2999)).empty());
  CHECK(Sent<DrainServer>(Tick(3000)).size() == 1);  // to a new life of the scheduler, it may be
  CHECK(Sent<DrainServer>(Tick(4999)).empty());
  (void)Do(SwitchPlan(WithoutSelf()));
  CHECK(Sent<DrainServer>(Tick(10'000)).empty());
  for (const uint32_t slot : {4, 5, 6}) CHECK_FALSE(Release(slot, 2).exit);
  const auto exit = Release(7, 2).exit;
  REQUIRE(exit);
  CHECK(exit->ok());
}

TEST_CASE_FIXTURE(Moves, "moves: a release of an earlier move lets go of nothing") {
  (void)Do(SwitchPlan(Next({5, 6, 7})));  // slot 4 goes by plan 2, comes back by plan 3
  (void)Do(Release(4, 2));
  const auto back = SwitchPlan(Next({4, 5, 6, 7}));
  (void)Do(back);
  for (const Message& pull : PullsOf(back)) (void)Do(Answer(pull, Part(pull, true)));
  (void)Do(SwitchPlan(Next({5, 6, 7})));  // and goes again by plan 4
  REQUIRE(core.plan_version() == 4);
  CHECK(Release(4, 2).work.empty());
  CHECK(Release(4, 3).work.empty());
  CHECK(Release(4, 4).work.size() == 1);
}

}  // namespace
}  // namespace dslide::server_leaving_test
