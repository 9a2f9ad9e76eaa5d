// What a server copies before a plan gives it slots.
#include "server/base/events.h"
#include "tests/server/core/moves_fixture.h"
#include "tests/support/events.h"

namespace dslide::server_moves_test {
namespace {

using Moves = MovesFixture;
constexpr Incarnation kWorker = ServerFixture::kWorker;
constexpr Incarnation kSelf = ServerFixture::kSelf;
constexpr RunId kRun = ServerFixture::kRun;

TEST_CASE_FIXTURE(Moves,
                  "moves: slots are copied from the server that has them, then it is ready") {
  const auto effects = Scheduler(MoveSlots{1, {3, 2}, {0, 0}, 0});
  (void)Do(effects);
  const auto reserved = JobsOf(SlotJob::Kind::kReserve);
  REQUIRE(reserved.size() == 2);
  CHECK(reserved[0].executor != reserved[1].executor);  // each gets one
  const auto pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 2);
  CHECK(std::get<SlotPull>(pulls[0].body) ==
        SlotPull{.slot = 2, .cold_only = true, .max_bytes = SlotFetcher::kPartBytes});
  CHECK(pulls[0].envelope.run == kRun);
  CHECK(pulls[0].envelope.incarnation == kSelf);
  CHECK(pulls[0].envelope.plan_version == 1);
  const auto put = Answer(pulls[0], Part(pulls[0], false, 3));
  REQUIRE(put.work.size() == 1);
  CHECK(put.work[0].slot_job()->kind == SlotJob::Kind::kPut);
  CHECK(put.work[0].slot_job()->rows->rows.size() == 3);
  CHECK(Sent<MoveReady>(put).empty());
  CHECK(Answer(pulls[1], Part(pulls[1], false, 0)).work.empty());
  const auto rest = PullsOf(Tick(SlotFetcher::kWatchMs));
  REQUIRE(rest.size() == 2);
  CHECK(std::get<SlotPull>(rest[0].body).part == 1);
  CHECK(Sent<MoveReady>(Answer(rest[0], Part(rest[0], false, 0))).empty());
  const auto ready = Sent<MoveReady>(Answer(rest[1], Part(rest[1], false, 0)));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].body == Body{MoveReady{1, 30, 10}});
  CHECK(Sent<MoveReady>(Tick(600)).empty());
  CHECK(Sent<MoveReady>(Scheduler(MoveSlots{1, {3, 2}, {0, 0}, 0})).size() == 1);  // lost
}

TEST_CASE_FIXTURE(Moves, "moves: orders that make no sense, or come too early, are not taken") {
  SUBCASE("its own slot") { CHECK(Scheduler(MoveSlots{1, {4}, {0}, 0}).to_servers.empty()); }
  SUBCASE("another owner") { CHECK(Scheduler(MoveSlots{1, {2}, {1}, 0}).to_servers.empty()); }
  SUBCASE("no such slot") { CHECK(Scheduler(MoveSlots{1, {8}, {0}, 0}).to_servers.empty()); }
  SUBCASE("another generation") {
    version = 2;
    CHECK(Scheduler(MoveSlots{1, {2}, {0}, 0}).to_servers.empty());
  }
  version = 1;
  CHECK(PullsOf(Scheduler(MoveSlots{2, {2}, {0}, 0})).size() == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: a later order drops copies that it does not name, others go on") {
  (void)Do(Scheduler(MoveSlots{1, {2, 3}, {0, 0}, 0}));
  const auto effects = Scheduler(MoveSlots{2, {1, 3}, {0, 0}, 0});
  (void)Do(effects);
  REQUIRE(JobsOf(SlotJob::Kind::kDiscard).size() == 1);
  CHECK(JobsOf(SlotJob::Kind::kDiscard)[0].slots == std::vector<SlotId>{{2}});
  auto pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 2);
  CHECK(std::get<SlotPull>(pulls[0].body) == SlotPull{.slot = 2, .release = true});  // not taken
  pulls.erase(pulls.begin());
  CHECK(std::get<SlotPull>(pulls[0].body).slot == 1);
  const auto none = Scheduler(MoveSlots{3, {}, {}, 0});
  (void)Do(none);
  CHECK(JobsOf(SlotJob::Kind::kDiscard).back().slots == std::vector<SlotId>{{1}, {3}});
  CHECK(Tick(5000).to_servers.empty());
  CHECK(Answer(pulls[0], Part(pulls[0], false)).work.empty());
}

TEST_CASE_FIXTURE(Moves, "moves: a plan that gives what was copied to somebody else drops it") {
  CopyColdRows();
  const auto plan_switch = SwitchPlan(Next({3, 4, 5, 6, 7}));
  (void)Do(plan_switch);
  CHECK(JobsOf(SlotJob::Kind::kDiscard).at(0).slots == std::vector<SlotId>{{2}});
  const auto pulls = PullsOf(plan_switch);
  REQUIRE(pulls.size() == 2);
  CHECK(std::get<SlotPull>(pulls[0].body) == SlotPull{.slot = 2, .release = true});
  CHECK(std::get<SlotPull>(pulls[1].body).slot == 3);
}

TEST_CASE_FIXTURE(Moves, "moves: a slot that comes back is let go of first") {
  (void)Do(SwitchPlan(Next({6, 7})));
  jobs.clear();
  (void)Do(Scheduler(MoveSlots{5, {4}, {0}, 0}));
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].kind == SlotJob::Kind::kRelease);
  CHECK(jobs[1].kind == SlotJob::Kind::kReserve);
  CHECK(jobs[1].slots == std::vector<SlotId>{{4}});
}

const Error kBadPart = Failed("part 0 of slot 2 has a row of another model");

TEST_CASE_FIXTURE(Moves, "moves: a part that cannot be taken ends that copy, and nothing else") {
  const auto effects = Scheduler(MoveSlots{1, {2, 3}, {0, 0}, 0});
  (void)Do(effects);
  const auto pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 2);
  const auto put = Answer(pulls[0], Part(pulls[0], false));
  REQUIRE(put.work.size() == 1);
  (void)core.HandleOutcome({put.work[0].job_id, 0, Attached{}}, 0);
  const auto failed = core.HandleOutcome({put.work[0].job_id, 1, kBadPart}, 0);
  CHECK_FALSE(failed.unload);
  CHECK_FALSE(failed.exit);
  CHECK(core.incarnation() == kSelf);
  CHECK(Has(failed.warnings, event::kSlotNotCopied));
  jobs.clear();
  (void)Do(failed);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].kind == SlotJob::Kind::kDiscard);
  CHECK(jobs[0].slots == std::vector<SlotId>{{2}});
  const auto told = PullsOf(failed);
  REQUIRE(told.size() == 1);
  CHECK(std::get<SlotPull>(told[0].body) == SlotPull{.slot = 2, .release = true});
  // Without that copy it is not ready; the order that is repeated begins it again.
  now = SlotFetcher::kWatchMs;
  (void)Do(Answer(pulls[1], Part(pulls[1], false, 0)));
  const auto rest = PullsOf(Tick(2 * SlotFetcher::kWatchMs));
  REQUIRE(rest.size() == 1);
  CHECK(Sent<MoveReady>(Answer(rest[0], Part(rest[0], false, 0))).empty());
  const auto again = PullsOf(Scheduler(MoveSlots{1, {2, 3}, {0, 0}, 0}));
  REQUIRE(again.size() == 1);
  CHECK(std::get<SlotPull>(again[0].body).slot == 2);
}

TEST_CASE_FIXTURE(Moves, "moves: executors that are behind with putting hold back the pulls") {
  const auto effects = Scheduler(MoveSlots{1, {2}, {0}, 0});
  (void)Do(effects);
  std::vector<Message> pulls = PullsOf(effects);
  REQUIRE(pulls.size() == 1);
  (void)Do(Answer(pulls[0], Part(pulls[0], false, 0)));
  pulls = PullsOf(Tick(SlotFetcher::kWatchMs));
  std::vector<ServerWork> puts;
  while (!pulls.empty()) {
    REQUIRE(puts.size() < SlotMigration::kMaxPuts);
    const auto taken = Answer(pulls[0], Part(pulls[0], false));
    puts.insert(puts.end(), taken.work.begin(), taken.work.end());
    pulls = PullsOf(taken);
  }
  CHECK(puts.size() == SlotMigration::kMaxPuts);
  CHECK(core.AcceptsRequests());
  CHECK(Tick(2000).to_servers.empty());
  (void)core.HandleOutcome({puts[0].job_id, 0, Attached{}}, 0);
  CHECK(PullsOf(core.HandleOutcome({puts[0].job_id, 1, Attached{}}, 0)).size() == 1);
}

TEST_CASE_FIXTURE(Moves, "moves: a copy that its server does not take after all is forgotten") {
  const auto job_of = [&](const SortedActions& effects) {
    CHECK(std::holds_alternative<Ack>(Answers(effects).at(0).body));
    return effects.work.empty() ? std::nullopt : std::optional(*effects.work.at(0).slot_job());
  };
  const auto forgotten = job_of(Release(4, 1));
  REQUIRE(forgotten);
  CHECK(forgotten->kind == SlotJob::Kind::kForgetCopy);
  CHECK(forgotten->slots == std::vector<SlotId>{{4}});
  CHECK_FALSE(job_of(Release(4, 1, kWorker)));
  CHECK_FALSE(job_of(Release(99, 1)));
  // Not one that the plan has given to somebody: its rest has still to be copied.
  (void)Do(SwitchPlan(Next({5, 6, 7})));
  CHECK_FALSE(job_of(Release(4, 1)));
}

TEST_CASE_FIXTURE(Moves, "moves: it may ask the servers of its plan, and who has what it copies") {
  CHECK(core.MayAsk("a", {8}));
  CHECK_FALSE(core.MayAsk("a", {9}));  // one that came back there may have another key
  CHECK_FALSE(core.MayAsk("c", {30}));
  Plan next = plan;
  next.servers[0] = {"server", "c", {30}};
  next.version = 2;
  next.generation = 1;
  next.slot_owner = Next({2, 4, 5, 6, 7}).slot_owner;
  const auto plan_switch = SwitchPlan(next);
  (void)Do(plan_switch);
  CHECK(core.MayAsk("a", {8}));
  CHECK(core.MayAsk("c", {30}));
  const auto pull = PullsOf(plan_switch).at(0);
  const auto releases = PullsOf(Do(Answer(pull, Part(pull, true))));
  CHECK(core.MayAsk("a", {8}));
  (void)Answer(releases.at(0), Ack{});
  CHECK_FALSE(core.MayAsk("a", {8}));
}

TEST_CASE_FIXTURE(Moves, "moves: a new life of the scheduler numbers its moves anew") {
  CopyColdRows();
  const auto of_new_life = [&](Body body) {
    return core.HandleScheduler({{kRun, {10}, ++sequence, 0, version}, std::move(body)}, now);
  };
  (void)of_new_life(HeartbeatReply{});
  const auto effects = of_new_life(MoveSlots{1, {1}, {0}, 0});
  (void)Do(effects);
  CHECK(JobsOf(SlotJob::Kind::kDiscard).at(0).slots == std::vector<SlotId>{{2}, {3}});
  REQUIRE(PullsOf(effects).size() == 3);
  CHECK(std::get<SlotPull>(PullsOf(effects)[2].body).slot == 1);
}

TEST_CASE_FIXTURE(ServerFixture,
                  "moves: slots that a server of a generation must have had are lost") {
  (void)core.Start(0);
  (void)JoinAs("server-2");
  plan = PlanOf(3, kSelf);
  plan.generation = 1;
  version = 3;
  const auto effects = Scheduler(plan);
  CHECK_FALSE(effects.load);
  CHECK(effects.unload);
  CHECK(core.incarnation() != kSelf);
  CHECK(Sent<Join>(effects).size() == 1);
}

}  // namespace
}  // namespace dslide::server_moves_test
