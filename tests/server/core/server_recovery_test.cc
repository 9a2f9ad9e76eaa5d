// A server's checkpoints, plans that follow each other, lives that end, and a silent scheduler.
#include "tests/server/core/server_fixture.h"
#include "tests/support/tickets.h"

namespace dslide::server_recovery_test {
namespace {

using Fixture = ServerFixture;

constexpr Incarnation kWorker = Fixture::kWorker;

CheckpointRequest RequestFor(const std::string& name) {
  return {name, "/c/" + name, 0, {"step-0"}};
}

struct Synchronous : Fixture {
  Synchronous() {
    config.train.batch = 10;
    config.train.staleness = 0;
    config.train.target_batch = 20;
    ResolveConfig(30, 20, &config);
    plan = PlanOf(1, kSelf);
    Load();
  }
};

TEST_CASE_FIXTURE(Synchronous, "a checkpoint of other steps than are committed is for later") {
  CheckpointRequest request = RequestFor("step-4");
  request.committed = 2;
  auto answer = Scheduler(request);
  CHECK(std::get<CheckpointDone>(answer.to_scheduler.at(0).body).error ==
        "committed steps: 0 here, 2 asked for");
  (void)Scheduler(CommitSteps{3});
  answer = Scheduler(request);
  CHECK_FALSE(answer.save);
  CHECK(std::get<CheckpointDone>(answer.to_scheduler.at(0).body).retry);
  request.committed = 3;
  const auto save = Scheduler(request).save;
  REQUIRE(save);
  CHECK(save->committed == 3);
}

TEST_CASE_FIXTURE(Fixture, "with a newer plan a server drops all it has, and loads anew") {
  Load();
  const auto work = core.HandleWorker("peer", Request(7), 0).work.at(0);
  const auto save = Scheduler(RequestFor("step-1")).save;
  (void)Scheduler(DropBatches{{6}});
  version = 2;
  const auto effects = Scheduler(PlanOf(2, kSelf));
  REQUIRE(effects.load);
  CHECK(effects.load->restore == "/c/step-1");
  CHECK_FALSE(effects.unload);
  // What was under way is nobody's any more.
  CHECK(core.HandleOutcome({work.job_id, 0, Part(8, 2.0f)}, 0).to_workers.empty());
  CHECK(core.HandleOutcome({work.job_id, 1, Part(8, 2.0f)}, 0).to_workers.empty());
  CHECK(core.HandleSaved(save->job_id, {}, 0).to_scheduler.empty());
  CHECK(Refusal(core.HandleWorker("peer", Request(8, TopKRequest{}, 2), 0)) == ErrorCode::kRefused);
  CHECK_FALSE(Scheduler(RequestFor("step-1")).save);
  const auto ready = FinishLoad(*effects.load);
  CHECK(ready.to_scheduler.at(0).body == Body{Ready{2, 7, 30}});
  CHECK(ready.to_scheduler.at(0).envelope.plan_version == 2);
  // Stored replies, fenced workers and checkpoints were the old plan's.
  CHECK(core.HandleWorker("peer", Request(7, TopKRequest{Matrix(1, 4), 3, {}, {}}, 2), 0)
            .work.size() == 1);
  const Message other = From({6}, Request(1, TopKRequest{Matrix(1, 4), 3, {}, {}}, 2));
  CHECK(core.HandleWorker("peer", other, 0).work.size() == 1);
  const auto anew = Scheduler(RequestFor("step-1")).save;
  REQUIRE(anew);
  CHECK(anew->shard == "shard-2-1");
}

TEST_CASE_FIXTURE(Fixture, "older and repeated plans load nothing, the latter are answered") {
  plan = PlanOf(3, kSelf);
  version = 3;
  Load();
  const auto older = Scheduler(PlanOf(2, kSelf));
  CHECK_FALSE(older.load);
  CHECK(older.to_scheduler.empty());
  const auto again = Scheduler(plan);
  CHECK_FALSE(again.load);
  CHECK(Sent<Ready>(again).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "what the scheduler sends under another plan is not taken") {
  Load();
  version = 2;
  CHECK_FALSE(Scheduler(RequestFor("step-1")).save);
  CHECK(Scheduler(CommitSteps{4}).work.empty());
  CHECK(Scheduler(DropBatches{kWorker}).work.empty());
  CHECK(core.HandleWorker("peer", Request(1), 0).work.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a server without a seat is a spare, and waits for a plan with one") {
  (void)core.Start(0);
  (void)JoinAs("spare");
  const auto spare = Scheduler(PlanOf(1, {7}));
  CHECK_FALSE(spare.load);
  CHECK_FALSE(spare.exit);
  CHECK(Refusal(core.HandleWorker("peer", Request(1), 0)) == ErrorCode::kWrongRun);
  version = 2;
  CHECK(Scheduler(PlanOf(2, kSelf)).load);
}

TEST_CASE_FIXTURE(Fixture,
                  "a scheduler that does not know the server is told which plan it holds") {
  Load();
  now = 5000;
  auto joins = Sent<Join>(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}));
  REQUIRE(joins.size() == 1);
  const auto& join = std::get<Join>(joins[0].body);
  CHECK(join.plan_version == 1);
  CHECK(join.name == "server-2");
  CHECK(joins[0].envelope.incarnation == kSelf);
  // Refusals of other messages that were on their way call for nothing more.
  CHECK(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}).to_scheduler.empty());
  now = 5200;
  CHECK(Sent<Join>(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"})).size() == 1);
  const auto joined = JoinAs("server-2");
  CHECK_FALSE(joined.unload);
  CHECK_FALSE(joined.load);
  CHECK(core.HandleWorker("peer", Request(1), 0).work.size() == 1);  // nothing was lost
}

TEST_CASE_FIXTURE(Fixture, "a server that is still loading says that it holds nothing yet") {
  (void)core.Start(0);
  (void)JoinAs("server-2");
  (void)Scheduler(plan);
  now = 5000;
  const auto joins = Sent<Join>(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}));
  CHECK(std::get<Join>(joins.at(0).body).plan_version == 0);
}

TEST_CASE_FIXTURE(Fixture, "with a new life of the scheduler the workers' old lives are dropped") {
  Load();
  (void)core.HandleWorker("peer", Request(7), 0);
  CHECK(core.senders() == 1);
  CHECK(Scheduler(HeartbeatReply{}).work.empty());
  const Envelope of_new_life{kRun, {10}, 1, 0, 1};
  const auto effects = core.HandleScheduler({of_new_life, HeartbeatReply{}}, 0);
  REQUIRE(effects.work.size() == 1);
  CHECK(*effects.work[0].request() == Body{DropBatches{kWorker}});
  CHECK(core.senders() == 0);
  CHECK(Refusal(core.HandleWorker("peer", Request(8), 0)) == ErrorCode::kFenced);
}

TEST_CASE_FIXTURE(Fixture,
                  "a server asks a new life of the scheduler for its key until it has it") {
  Load();
  CHECK(Sent<Join>(Tick(2500)).empty());
  const auto of_new_life = [&](Body body) {
    return core.HandleScheduler({{kRun, {10}, 1, 0, 1}, std::move(body)}, now);
  };
  CHECK(Sent<Join>(of_new_life(ErrorReply{ErrorCode::kWrongRun, "who"})).size() == 1);
  // The old life's tickets are of no use any more, and nobody is blamed for having one.
  const auto refused = core.HandleWorker("peer", From({6}, Request(7)), 0);
  CHECK(Refusal(refused) == ErrorCode::kRefused);
  CHECK(Sent<Offence>(refused).empty());
  CHECK(Sent<Join>(Tick(4000)).empty());
  CHECK(Sent<Join>(Tick(4500)).size() == 1);  // the answer was lost
  (void)of_new_life(HeartbeatReply{});
  CHECK(Sent<Join>(Tick(6500)).size() == 1);
  (void)of_new_life(testing::JoinReplyWithKeys("server-2", FormatConfig(config), 100));
  CHECK(Sent<Join>(Tick(8500)).empty());
  CHECK(core.HandleWorker("peer", From({6}, Request(8)), 0).work.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a worker that begins a batch with another's ticket is reported") {
  Load();
  Message stolen = Request(8);
  stolen.envelope.incarnation = {6};
  const auto refused = core.HandleWorker("peer", stolen, 0);
  CHECK(Refusal(refused) == ErrorCode::kRefused);
  const auto reports = Sent<Offence>(refused);
  REQUIRE(reports.size() == 1);
  CHECK(std::get<Offence>(reports[0].body).worker == 6);
  CHECK(core.senders() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a fenced server begins a new life as a spare") {
  Load();
  const auto fenced = Scheduler(ErrorReply{ErrorCode::kFenced, "begin a new life"});
  CHECK_FALSE(fenced.exit);
  CHECK(fenced.unload);
  const auto joins = Sent<Join>(fenced);
  REQUIRE(joins.size() == 1);
  const Incarnation life = joins[0].envelope.incarnation;
  CHECK(life != kSelf);
  CHECK(life == core.incarnation());
  CHECK(std::get<Join>(joins[0].body).plan_version == 0);
  CHECK(joins[0].envelope.plan_version == 0);
  CHECK(Refusal(core.HandleWorker("peer", Request(1), 0)) == ErrorCode::kWrongRun);
  // Answers to the old life are not for this one.
  CHECK(Scheduler(ErrorReply{ErrorCode::kFenced, "again"}, 1).to_scheduler.empty());
  CHECK(core.incarnation() == life);
  (void)JoinAs("server-3", joins[0].envelope.sequence);
  version = 4;
  CHECK_FALSE(Scheduler(PlanOf(4, kSelf)).load);  // the seat of its old life
  version = 5;
  const auto load = Scheduler(PlanOf(5, life)).load;
  REQUIRE(load);
  CHECK(load->server != "server-2-0000000000000001");
  CHECK(load->server.starts_with("server-3-"));
}

TEST_CASE_FIXTURE(Fixture, "a run that goes on with another configuration is joined anew") {
  (void)core.Start(0);
  (void)JoinAs("server-2");
  (void)Scheduler(plan);  // it loads, or is a spare: it holds nothing that could be fenced
  config.train.learning_rate = 0.5f;
  const auto joined = JoinAs("server-2");
  CHECK(joined.unload);
  CHECK(core.config()->train.learning_rate == 0.5f);
  version = 2;
  const auto load = Scheduler(PlanOf(2, kSelf)).load;
  REQUIRE(load);
  CHECK(load->config.train.learning_rate == 0.5f);
}

TEST_CASE_FIXTURE(Fixture, "a signal asks for a checkpoint first, and the answer ends the server") {
  config.cluster.drain_s = 0;  // its slots stay
  Load();
  const auto asked = core.RequestStop(1000);
  CHECK_FALSE(asked.exit);
  const uint64_t request = Sent<CheckpointNow>(asked).at(0).envelope.sequence;
  CHECK_FALSE(Scheduler(CheckpointDone{}, request + 1).exit);
  SUBCASE("written") {
    const auto exit = Scheduler(CheckpointDone{}, request).exit;
    REQUIRE(exit);
    CHECK(exit->error().kind == ErrorKind::kPreempted);
    CHECK(Sent<Leave>(core.Goodbye({})).size() == 1);
  }
  SUBCASE("refused") {
    const auto exit = Scheduler(ErrorReply{ErrorCode::kRefused, "nothing to save"}, request).exit;
    REQUIRE(exit);
    CHECK(exit->error().kind == ErrorKind::kTryLater);
  }
  SUBCASE("its slots are others' by now") {
    const auto effects = Scheduler(ErrorReply{ErrorCode::kFenced, "begin a new life"});
    REQUIRE(effects.exit);
    CHECK(effects.exit->error().kind == ErrorKind::kTryLater);
  }
}

TEST_CASE_FIXTURE(Fixture, "a signal ends a server that has nothing to save at once") {
  (void)core.Start(0);
  (void)JoinAs("server-2");
  CHECK(core.RequestStop(0).exit->error().kind == ErrorKind::kTryLater);
}

TEST_CASE_FIXTURE(Fixture,
                  "a new life of the scheduler that fences a server ends its work at once") {
  Load();
  (void)core.HandleWorker("peer", Request(7), 0);
  const Envelope of_new_life{kRun, {10}, 1, 0, 1};
  const auto effects =
      core.HandleScheduler({of_new_life, ErrorReply{ErrorCode::kFenced, "begin a new life"}}, 0);
  CHECK(effects.unload);
  CHECK(effects.work.empty());  // there are no executors for it
}

TEST_CASE_FIXTURE(Fixture,
                  "a server without a checkpoint saves beside the one it was filled from") {
  Load();
  const auto effects = Tick(60'001);
  REQUIRE(effects.save);
  CHECK(effects.save->directory == "/c/orphan-1-0");
}

TEST_CASE_FIXTURE(Fixture, "without the scheduler a server saves what it has, and leaves") {
  SUBCASE("it does not know where to") {
    plan.restore.clear();
    Load();
    CHECK_FALSE(Tick(60'000).exit);
    const auto exit = Tick(60'001).exit;
    REQUIRE(exit);
    CHECK(exit->error().kind == ErrorKind::kTryLater);
  }
  SUBCASE("it knows from an earlier checkpoint") {
    Load();
    const auto earlier = Scheduler(RequestFor("step-1")).save;
    (void)core.HandleSaved(earlier->job_id, {}, 0);
    CHECK_FALSE(Tick(60'000).save);
    const auto effects = Tick(60'001);
    CHECK_FALSE(effects.exit);
    REQUIRE(effects.save);
    CHECK(effects.save->directory == "/c/orphan-1-0");
    CHECK(effects.save->shard == "shard-1-1");
    CHECK_FALSE(Tick(60'101).save);       // once
    CHECK_FALSE(core.AcceptsRequests());  // nothing may count that the mark lacks
    SUBCASE("saved") { CHECK(core.HandleSaved(effects.save->job_id, {}, 0).exit); }
    SUBCASE("not saved") {
      CheckpointDone failed;
      failed.error = "no space left on device";
      const auto exit = core.HandleSaved(effects.save->job_id, failed, 0).exit;
      REQUIRE(exit);
      CHECK(exit->error().message.ends_with(failed.error));
    }
    SUBCASE("a new plan comes meanwhile: it begins anew") {
      version = 2;
      const auto load = Scheduler(PlanOf(2, kSelf)).load;
      REQUIRE(load);
      CHECK_FALSE(core.HandleSaved(effects.save->job_id, {}, 0).exit);
      (void)FinishLoad(*load);
      CHECK(core.AcceptsRequests());
    }
  }
}

}  // namespace
}  // namespace dslide::server_recovery_test
