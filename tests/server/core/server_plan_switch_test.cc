// A server that goes from one plan of a generation to the next.
#include "server/base/events.h"
#include "tests/server/core/moves_fixture.h"
#include "tests/support/events.h"

namespace dslide::server_plan_switch_test {
namespace {

using Moves = MovesFixture;
constexpr Incarnation kSelf = ServerFixture::kSelf;
constexpr Incarnation kWorker = ServerFixture::kWorker;
const std::vector<uint32_t> kSix = {2, 3, 4, 5, 6, 7};

TEST_CASE_FIXTURE(
    Moves, "moves: the next plan is switched to, without a load, it is ready with its slots") {
  CopyColdRows();
  now = 5000;
  const auto plan_switch = SwitchPlan(Next(kSix));
  CHECK_FALSE(plan_switch.load);
  CHECK_FALSE(plan_switch.unload);
  CHECK(Sent<Ready>(plan_switch).empty());
  jobs.clear();
  (void)Do(plan_switch);
  REQUIRE(jobs.size() == 1);  // the slots have their places already
  CHECK(jobs[0].kind == SlotJob::Kind::kSwitchPlan);
  CHECK(jobs[0].slots.empty());
  const auto pulls = PullsOf(plan_switch);
  REQUIRE(pulls.size() == 2);
  for (const Message& pull : pulls) {
    CHECK_FALSE(std::get<SlotPull>(pull.body).cold_only);
    CHECK(std::get<SlotPull>(pull.body).part == 2);
    CHECK(pull.envelope.plan_version == 2);
  }
  CHECK(Sent<Ready>(Do(Answer(pulls[0], Part(pulls[0], true)))).empty());
  now = 5007;
  const auto there = Answer(pulls[1], Part(pulls[1], true));
  REQUIRE(there.work.size() == 2);  // the rows, then the slots
  CHECK(there.work[0].slot_job()->kind == SlotJob::Kind::kPut);
  CHECK(there.work[1].slot_job()->kind == SlotJob::Kind::kAttach);
  CHECK(there.work[1].slot_job()->slots == std::vector<SlotId>{{2}, {3}});
  CHECK(Sent<Ready>(there).empty());  // only when they are part of the model
  const auto attached = Do(there);
  const auto ready = Sent<Ready>(attached);
  REQUIRE(ready.size() == 1);
  const auto& figures = std::get<Ready>(ready[0].body);
  CHECK(figures.plan_version == 2);
  CHECK(figures.moved_bytes == 60);  // of each slot 20 while it rested, 10 behind
  CHECK(figures.slot_bytes == 40);   // a row came twice
  CHECK(figures.stall_us == 7000);
  CHECK(ready[0].envelope.plan_version == 2);
  CHECK(PullsOf(attached).size() == 2);
  CHECK(Sent<Ready>(Scheduler(plan)).size() == 1);  // if that was lost
}

TEST_CASE_FIXTURE(Moves,
                  "moves: what workers asked for under the plan before need not be computed") {
  const auto asked = core.HandleWorker("peer", Request(1), 0).work;
  REQUIRE(asked.size() == 1);
  const auto is_stale = [&](const ServerWork& work) {
    const auto* request = std::get_if<RequestJob>(&work.job);
    return request != nullptr && request->StaleUnder(core.plan_version());
  };
  CHECK_FALSE(is_stale(asked[0]));
  const auto plan_switch = SwitchPlan(Next({6, 7}));
  CHECK(is_stale(asked[0]));
  for (const ServerWork& work : plan_switch.work) CHECK_FALSE(is_stale(work));
  (void)core.HandleOutcome({asked[0].job_id, 0, ServerFixture::Part(1, 2)}, 0);  // it was under way
  const ErrorReply late{ErrorCode::kStalePlan, "slots have moved"};
  const auto refused = core.HandleOutcome({asked[0].job_id, 1, late}, 0);
  CHECK(Refusal(refused) == ErrorCode::kStalePlan);
  (void)Do(plan_switch);
  const auto next =
      core.HandleWorker("peer", Request(2, TopKRequest{Matrix(1, 4), 3, {}, {}}, 2), 0);
  REQUIRE(next.work.size() == 1);
  CHECK_FALSE(is_stale(next.work[0]));
}

TEST_CASE_FIXTURE(Moves, "moves: requests by the newer plan wait until it is ready for it") {
  CopyColdRows();
  const auto ask = [&] {
    const auto asked =
        core.HandleWorker("peer", Request(7, TopKRequest{Matrix(1, 4), 3, {}, {}}, 2), 0);
    CHECK((asked.work.empty() && asked.to_workers.empty()));
  };
  SortedActions ready;
  SUBCASE("they come before the plan") {
    ask();
    ready = TakeOver(Next(kSix));
  }
  SUBCASE("they come before its slots") {
    const auto plan_switch = SwitchPlan(Next(kSix));
    ask();
    ask();  // repeated
    (void)Do(plan_switch);
    for (const Message& pull : PullsOf(plan_switch)) ready = Do(Answer(pull, Part(pull, true)));
  }
  CHECK(std::ranges::count_if(
            ready.work, [](const ServerWork& work) { return work.request() != nullptr; }) == 1);
}

TEST_CASE_FIXTURE(Moves,
                  "moves: a pull while it switches plans is answered, so two may exchange slots") {
  CHECK(PullFrom({5, 0, false, 1000, false}, 2).work.empty());  // before the plan
  const auto plan_switch = SwitchPlan(Next({2, 3, 6, 7}));
  (void)Do(plan_switch);
  CHECK(PullsOf(plan_switch).size() == 2);
  CHECK(OwnPulls(plan_switch).size() == 1);  // the one that came before
  CHECK(PullFrom({4, 0, false, 1000, false}, 2).work.size() == 1);
}

TEST_CASE_FIXTURE(Moves,
                  "moves: a plan that comes in the middle of a plan switch waits for its end") {
  CopyColdRows();
  const auto plan_switch = SwitchPlan(Next(kSix));
  (void)Do(plan_switch);
  const auto second = SwitchPlan(Next({2, 3, 4, 5}));
  CHECK(second.work.empty());
  CHECK(core.plan_version() == 2);
  const auto pulls = PullsOf(plan_switch);
  // What the scheduler says by that plan holds.
  CHECK(Scheduler(DropBatches{kWorker}).work.size() == 1);
  (void)Do(Answer(pulls[0], Part(pulls[0], true)));
  jobs.clear();
  const auto done = Do(Answer(pulls[1], Part(pulls[1], true)));
  CHECK(core.plan_version() == 3);
  const auto ready = Sent<Ready>(done);
  REQUIRE(ready.size() == 2);
  CHECK(std::get<Ready>(ready[0].body).plan_version == 2);
  CHECK(std::get<Ready>(ready[1].body).plan_version == 3);
  CHECK(JobsOf(SlotJob::Kind::kSwitchPlan).at(0).slots == std::vector<SlotId>{{6}, {7}});
}

TEST_CASE_FIXTURE(Moves, "moves: a plan that comes while a checkpoint is written waits for it") {
  const auto save = Scheduler(CheckpointRequest{"step-1", "/c/step-1", 0, {}}).save;
  REQUIRE(save);
  CHECK(save->slots == std::vector<SlotId>{{4}, {5}, {6}, {7}});
  const auto plan_switch = SwitchPlan(Next({6, 7}));
  CHECK(plan_switch.work.empty());
  CHECK(core.plan_version() == 1);
  CHECK(core.HandleWorker("peer", Request(7, TopKRequest{}, 2), 0).to_workers.empty());  // waits
  CHECK(Scheduler(MoveSlots{4, {2}, {0}, 0}).to_servers.empty());
  const auto saved = core.HandleSaved(save->job_id, {}, 0);
  CHECK(Sent<CheckpointDone>(saved).at(0).envelope.plan_version == 1);
  CHECK(core.plan_version() == 2);
  CHECK(Sent<Ready>(Do(saved)).size() == 1);
  // The next one is without the slots that went.
  const auto next = Scheduler(CheckpointRequest{"step-2", "/c/step-2", 0, {}}).save;
  REQUIRE(next);
  CHECK(next->shard == "shard-2-1");
  CHECK(next->slots == std::vector<SlotId>{{6}, {7}});
}

TEST_CASE_FIXTURE(Moves, "moves: no checkpoint begins in the middle of a plan switch") {
  CopyColdRows();
  (void)Do(SwitchPlan(Next(kSix)));
  const auto asked = Scheduler(CheckpointRequest{"step-1", "/c/step-1", 0, {}});
  CHECK_FALSE(asked.save);
  CHECK(asked.to_scheduler.empty());  // the scheduler asks again
}

TEST_CASE_FIXTURE(Moves, "moves: without a slot that came the plan cannot be kept") {
  CopyColdRows();
  const auto plan_switch = SwitchPlan(Next(kSix));
  (void)Do(plan_switch);
  const auto pulls = PullsOf(plan_switch);
  REQUIRE(pulls.size() == 2);
  SortedActions failed;
  SUBCASE("a part cannot be taken") {
    const auto put = Answer(pulls[0], Part(pulls[0], false));
    REQUIRE(put.work.size() == 1);
    const Error error = Failed("part 2 of slot 2 has a row of another model");
    (void)core.HandleOutcome({put.work[0].job_id, 0, Attached{}}, 0);
    failed = core.HandleOutcome({put.work[0].job_id, 1, error}, 0);
  }
  SUBCASE("no executor has attached it") {
    (void)Do(Answer(pulls[0], Part(pulls[0], true)));
    const auto there = Answer(pulls[1], Part(pulls[1], true));
    REQUIRE(there.work.size() == 2);
    const uint64_t attach = there.work[1].job_id;
    (void)core.HandleOutcome({attach, 0, Attached{{{2}}}}, 0);
    failed = core.HandleOutcome({attach, 1, Attached{}}, 0);
  }
  CHECK(failed.unload);
  CHECK_FALSE(failed.exit);
  CHECK(core.incarnation() != kSelf);
  CHECK(Sent<Ready>(failed).empty());
  CHECK(std::get<Join>(Sent<Join>(failed).at(0).body).plan_version == 0);
}

TEST_CASE_FIXTURE(Moves, "moves: without room for a slot only a plan that has it cannot be kept") {
  const auto fail = [&](const SortedActions& effects) {
    const auto reserve = std::ranges::find_if(effects.work, [](const ServerWork& work) {
      return work.slot_job() && work.slot_job()->kind == SlotJob::Kind::kReserve;
    });
    REQUIRE(reserve != effects.work.end());
    (void)core.HandleOutcome({reserve->job_id, 0, Failed("no memory")}, 0);
    return core.HandleOutcome({reserve->job_id, 1, Attached{}}, 0);
  };
  SUBCASE("the plan has it") { CHECK(fail(SwitchPlan(Next({2, 4, 5, 6, 7}))).unload); }
  SUBCASE("it is only copied") {
    const auto failed = fail(Scheduler(MoveSlots{1, {2}, {0}, 0}));
    CHECK_FALSE(failed.unload);
    REQUIRE(failed.work.size() == 1);
    CHECK(failed.work[0].slot_job()->kind == SlotJob::Kind::kDiscard);
  }
  SUBCASE("it was only copied, and the plan gives it to nobody here") {
    const auto copying = Scheduler(MoveSlots{1, {2}, {0}, 0});
    (void)SwitchPlan(Next({4, 5, 6, 7}));
    CHECK_FALSE(fail(copying).unload);
  }
}

TEST_CASE_FIXTURE(Moves, "moves: a plan whose slots are with no server of it is not taken") {
  Plan next = Next(kSix);
  next.slot_owner[3] = 2;
  const auto effects = SwitchPlan(next);
  CHECK(effects.work.empty());
  CHECK(Has(effects.warnings, event::kSlotMapRefused));
  CHECK(core.plan_version() == 1);
}

struct InnerMoves : ServerFixture {
  InnerMoves() { Load(); }
};

TEST_CASE_FIXTURE(InnerMoves, "moves: a slot of its own that cannot be read is asked for again") {
  const uint64_t measuring = MeasureIn(Tick(1000));
  for (uint32_t e = 0; e < 2; ++e) {  // the first executor has more to do
    const float work = e == 0 ? 100.0f : 1.0f;
    Measured part;
    part.load = {
        10, 0.5, {{.slot = {4 + 2 * e}, .work = work}, {.slot = {5 + 2 * e}, .work = work}}};
    (void)core.HandleOutcome({measuring, e, part}, 1'000'000);
  }
  Plan next = plan;
  next.version = version = 2;
  next.generation = 1;
  const auto own = MovesFixture::OwnPulls(Scheduler(next));
  REQUIRE(own.size() == 1);
  const ErrorReply error{ErrorCode::kRefused, "the server is out of memory"};
  (void)core.HandleOutcome({own[0].job_id, 0, error}, 1'000'000);
  const auto refused = core.HandleOutcome({own[0].job_id, 1, Ack{}}, 1'000'000);
  CHECK(MovesFixture::OwnPulls(refused).empty());
  CHECK(MovesFixture::OwnPulls(Tick(1000 + SlotFetcher::kRefusedMs)).size() == 1);
}

struct OneServer : ServerFixture {
  OneServer() {
    config.cluster.balance = Balance::kOff;
    plan = EqualPlan(1, config.cluster.slots, {{"server", "a", kSelf}});
    Load();
  }
};

TEST_CASE_FIXTURE(OneServer,
                  "moves: the second round of a query that a plan switch overtook is refused") {
  ActiveQuery query;
  query.hidden = Matrix(1, 4);
  query.finish = true;
  (void)core.HandleWorker("peer", Request(6), 0);  // a worker that has begun something
  const auto asked = core.HandleWorker("peer", Request(7, query), 0);
  REQUIRE(asked.work.size() == 1);
  Plan next = plan;
  next.version = version = 2;
  next.generation = 1;
  next.servers.push_back({"server-2", "b", {8}});
  (void)Scheduler(next);
  ActiveReply part;
  part.max = part.target_logit = part.loss = {0.0f};
  part.sum_exp = {1.0f};
  part.active = {1};
  (void)core.HandleOutcome({asked.work[0].job_id, 0, part}, 0);
  // The executors have dropped the batch with the plan switch, and would not know it.
  CHECK(Refusal(core.HandleOutcome({asked.work[0].job_id, 1, part}, 0)) == ErrorCode::kStalePlan);
}

}  // namespace
}  // namespace dslide::server_plan_switch_test
