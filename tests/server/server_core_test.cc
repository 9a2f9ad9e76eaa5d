#include "server/server_core.h"

#include "tests/server/local_cluster.h"

namespace dslide {
namespace {

constexpr RunId kRun{77};
constexpr Incarnation kSelf{1}, kWorker{5};

Config ServerConfig() {
  Config config = SmallConfig(30, 20, 4);
  config.cluster.executors = 2;
  config.cluster.heartbeat_ms = 1000;
  return config;
}

struct Fixture {
  Config config = ServerConfig();
  ServerCore core{{kSelf, "", "tcp://here:1", 4, 1000}};
  Plan plan = EqualPlan(1, config.cluster.slots, {{"server", "a"}, {"server-2", "b"}});
  uint64_t sequence = 0;

  Message FromScheduler(Body body) { return {{kRun, {9}, ++sequence, 0, 0}, std::move(body)}; }
  ServerCore::Effects Scheduler(Body body) {
    return core.HandleScheduler(FromScheduler(std::move(body)), 0);
  }
  ServerCore::Effects JoinAs(const std::string& name) {
    return Scheduler(JoinReply{name, FormatConfig(config), 100});
  }
  // Joined, planned and loaded.
  void Load() {
    (void)JoinAs("server-2");
    const auto load = Scheduler(plan).load;
    REQUIRE(load);
    (void)core.HandleOutcome({load->ticket, 0, Ready{0, 3, 10}}, 0);
    (void)core.HandleOutcome({load->ticket, 1, Ready{0, 4, 20}}, 0);
  }
  static Message Request(uint64_t number, Body body = TopKRequest{Matrix(1, 4), 3, {}, {}}) {
    return {{kRun, kWorker, number, 0, 1}, std::move(body)};
  }
  static Message Reply(const ServerCore::Effects& effects) {
    REQUIRE(effects.to_workers.size() == 1);
    CHECK(effects.to_workers[0].first == "peer");
    const auto message = Decode(effects.to_workers[0].second);
    REQUIRE(message.ok());
    return *message;
  }
  static ErrorCode Refusal(const ServerCore::Effects& effects) {
    CHECK(effects.work.empty());
    return std::get<ErrorReply>(Reply(effects).body).code;
  }
  static TopKReply Part(uint32_t id, float score) { return {{0, 1}, {id}, {score}}; }
};

TEST_CASE_FIXTURE(Fixture, "a server joins, gets its slots, loads them and is ready") {
  const auto start = core.Start(0);
  const auto& join = std::get<Join>(start.to_scheduler.at(0).body);
  CHECK(join.role == Role::kServer);
  CHECK(join.address == "tcp://here:1");
  CHECK(core.Tick({}, 1999).to_scheduler.empty());
  CHECK(core.Tick({}, 2000).to_scheduler.size() == 1);  // asks again
  const auto joined = JoinAs("server-2");
  REQUIRE_MESSAGE(!joined.exit, joined.exit->error().message);
  CHECK(*core.config() == config);
  const auto load = Scheduler(plan).load;
  REQUIRE(load);
  CHECK(load->restore == "/restore");
  CHECK(load->train_samples == 100);
  REQUIRE(load->slots.size() == 2);
  CHECK(load->slots[0] == std::vector<SlotId>{{4}, {5}});
  CHECK(load->slots[1] == std::vector<SlotId>{{6}, {7}});
  CHECK_FALSE(Scheduler(plan).load);  // a repeated plan loads nothing
  CHECK(Refusal(core.HandleWorker("peer", Request(1), 0)) == ErrorCode::kWrongRun);  // not yet
  CHECK(core.HandleOutcome({load->ticket, 1, Ready{0, 4, 20}}, 0).to_scheduler.empty());
  const auto ready = core.HandleOutcome({load->ticket, 0, Ready{0, 3, 10}}, 0);
  REQUIRE(ready.to_scheduler.size() == 1);
  CHECK(std::get<Ready>(ready.to_scheduler[0].body) == Ready{1, 7, 30});
  CHECK(ready.to_scheduler[0].envelope.run == kRun);
}

TEST_CASE_FIXTURE(Fixture, "a request goes to the executors, and their parts make one reply") {
  Load();
  const auto effects = core.HandleWorker("peer", Request(7), 0);
  REQUIRE(effects.work.size() == 1);
  CHECK(effects.work[0].sender == kWorker);
  const uint64_t ticket = effects.work[0].ticket;
  CHECK(core.HandleOutcome({ticket, 1, Part(5, 1.0f)}, 0).to_workers.empty());
  const Message reply = Reply(core.HandleOutcome({ticket, 0, Part(8, 2.0f)}, 0));
  CHECK(reply.envelope.reply_to == 7);
  CHECK(std::get<TopKReply>(reply.body).ids == std::vector<uint32_t>{8, 5});
}

TEST_CASE_FIXTURE(Fixture, "a repeated request is worked on once and gets the stored reply") {
  Load();
  const uint64_t ticket = core.HandleWorker("peer", Request(7), 0).work.at(0).ticket;
  const auto again = core.HandleWorker("peer", Request(7), 0);
  CHECK(again.work.empty());
  CHECK(again.to_workers.empty());
  (void)core.HandleOutcome({ticket, 0, Part(8, 2.0f)}, 0);
  const auto first = core.HandleOutcome({ticket, 1, Part(5, 1.0f)}, 0);
  const auto stored = core.HandleWorker("peer", Request(7), 0);
  CHECK(stored.work.empty());
  CHECK(stored.to_workers == first.to_workers);
  // Another life of the worker is another sender.
  Message other = Request(7);
  other.envelope.incarnation = {6};
  CHECK(core.HandleWorker("peer", other, 0).work.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "an executor's error is the reply") {
  Load();
  const uint64_t ticket = core.HandleWorker("peer", Request(7), 0).work.at(0).ticket;
  (void)core.HandleOutcome({ticket, 0, Part(8, 2.0f)}, 0);
  const auto effects =
      core.HandleOutcome({ticket, 1, ErrorReply{ErrorCode::kUnknownBatch, "no"}}, 0);
  CHECK(Refusal(effects) == ErrorCode::kUnknownBatch);
  CHECK(core.HandleOutcome({ticket, 1, Part(5, 1.0f)}, 0).to_workers.empty());  // a closed ticket
}

TEST_CASE_FIXTURE(Fixture, "other runs and stale plans are refused, the latter with the plan") {
  Load();
  Message message = Request(1);
  message.envelope.run = {78};
  CHECK(Refusal(core.HandleWorker("peer", message, 0)) == ErrorCode::kWrongRun);
  message = Request(2);
  message.envelope.plan_version = 3;
  const auto effects = core.HandleWorker("peer", message, 0);
  REQUIRE(effects.to_workers.size() == 2);
  CHECK(std::get<Plan>(Decode(effects.to_workers[0].second)->body) == plan);
  const auto refusal = Decode(effects.to_workers[1].second);
  CHECK(std::get<ErrorReply>(refusal->body).code == ErrorCode::kStalePlan);
}

TEST_CASE_FIXTURE(Fixture, "malformed messages are answered and counted") {
  Load();
  for (uint64_t n = 1; n <= 3; ++n) {
    CHECK(Refusal(core.HandleMalformed("peer", Failed("no envelope"))) == ErrorCode::kMalformed);
    CHECK(core.malformed() == n);
  }
  const auto beat = core.Tick({}, 1000).to_scheduler;
  REQUIRE(beat.size() == 1);
  CHECK(std::get<Heartbeat>(beat[0].body).malformed == 3);
}

TEST_CASE_FIXTURE(Fixture, "work that finds the queues full is refused for good") {
  Load();
  const auto work = core.HandleWorker("peer", Request(7), 0).work.at(0);
  CHECK(Refusal(core.Reject(work.ticket)) == ErrorCode::kRefused);
  CHECK(Refusal(core.HandleWorker("peer", Request(7), 0)) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "a request older than the stored replies is not worked on again") {
  Load();
  for (uint64_t n = 1; n <= ReplyCache::kKept + 1; ++n) {
    const uint64_t ticket = core.HandleWorker("peer", Request(n), 0).work.at(0).ticket;
    (void)core.HandleOutcome({ticket, 0, Part(8, 2.0f)}, 0);
    (void)core.HandleOutcome({ticket, 1, Part(5, 1.0f)}, 0);
  }
  CHECK(Refusal(core.HandleWorker("peer", Request(1), 0)) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "the scheduler has a dead worker's batches and replies dropped") {
  Load();
  const uint64_t ticket = core.HandleWorker("peer", Request(7), 0).work.at(0).ticket;
  const auto effects = Scheduler(DropBatches{kWorker});
  REQUIRE(effects.work.size() == 1);
  CHECK(*effects.work[0].request == Body{DropBatches{kWorker}});
  (void)core.HandleOutcome({effects.work[0].ticket, 0, Ack{}}, 0);
  CHECK(core.HandleOutcome({effects.work[0].ticket, 1, Ack{}}, 0).to_workers.empty());
  (void)core.HandleOutcome({ticket, 0, Part(8, 2.0f)}, 0);
  (void)core.HandleOutcome({ticket, 1, Part(8, 2.0f)}, 0);
  CHECK(core.HandleWorker("peer", Request(7), 0).work.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a checkpoint is saved and reported with its totals or its error") {
  CHECK_FALSE(Scheduler(CheckpointRequest{"step-1", "/c/step-1"}).save);  // nothing loaded
  Load();
  const auto save = Scheduler(CheckpointRequest{"step-1", "/c/step-1"}).save;
  REQUIRE(save);
  CHECK(save->directory == "/c/step-1");
  CHECK(save->shard == "shard-1");
  CheckpointDone totals;
  totals.rows = 10;
  totals.bytes = 100;
  totals.files = {{"000001.sst", 100, 99}};
  (void)core.HandleOutcome({save->ticket, 1, totals}, 0);
  auto sent = core.HandleOutcome({save->ticket, 0, CheckpointDone{}}, 0).to_scheduler;
  CHECK(std::get<CheckpointDone>(sent.at(0).body) ==
        CheckpointDone{"step-1", "", "shard-1", 10, 100, {{"000001.sst", 100, 99}}});
  const auto bad = Scheduler(CheckpointRequest{"step-2", "/c/step-2"}).save;
  (void)core.HandleOutcome({bad->ticket, 1, ErrorReply{ErrorCode::kRefused, "disk full"}}, 0);
  sent = core.HandleOutcome({bad->ticket, 0, CheckpointDone{}}, 0).to_scheduler;
  CHECK(std::get<CheckpointDone>(sent.at(0).body).error == "disk full");
}

TEST_CASE_FIXTURE(Fixture, "what ends a server") {
  SUBCASE("the end of the run") {
    Load();
    const auto exit = Scheduler(Shutdown{"finished", 0}).exit;
    REQUIRE(exit);
    CHECK(exit->ok());
  }
  SUBCASE("a failed load") {
    (void)JoinAs("server-2");
    const auto load = Scheduler(plan).load;
    (void)core.HandleOutcome({load->ticket, 0, Ready{}}, 0);
    const auto effects =
        core.HandleOutcome({load->ticket, 1, ErrorReply{ErrorCode::kRefused, "no such shard"}}, 0);
    CHECK(effects.exit->error().message == "no such shard");
    CHECK(std::get<ErrorReply>(effects.to_scheduler.at(0).body).text == "no such shard");
  }
  SUBCASE("a refused join") {
    CHECK(Scheduler(ErrorReply{ErrorCode::kRefused, "full"}).exit->error().kind ==
          ErrorKind::kTryLater);
  }
  SUBCASE("another version") {
    CHECK(Scheduler(ErrorReply{ErrorCode::kIncompatible, "old"}).exit->error().kind ==
          ErrorKind::kFailed);
  }
  SUBCASE("a scheduler that does not know it") {
    Load();
    CHECK_FALSE(Scheduler(ErrorReply{ErrorCode::kRefused, "hm"}).exit);
    CHECK(Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}).exit->error().kind ==
          ErrorKind::kTryLater);
  }
  SUBCASE("a plan without it") {
    (void)JoinAs("somebody");
    CHECK_FALSE(Scheduler(plan).exit->ok());
  }
  SUBCASE("a configuration that it does not understand") {
    CHECK_FALSE(Scheduler(JoinReply{"server", "[model]\nhiden = 3\n", 100}).exit->ok());
  }
}

}  // namespace
}  // namespace dslide
