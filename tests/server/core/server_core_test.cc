#include "server/core/server_core.h"
#include "common/log/events.h"
#include "server/base/events.h"

#include "tests/server/core/server_fixture.h"
#include "tests/support/events.h"
#include "tests/support/tickets.h"

namespace dslide::server_core_test {
namespace {

using Fixture = ServerFixture;

constexpr RunId kRun = Fixture::kRun;
constexpr Incarnation kSelf = Fixture::kSelf, kWorker = Fixture::kWorker;

TEST_CASE_FIXTURE(Fixture, "a server joins, gets its slots, loads them and is ready") {
  const auto start = core.Start(0);
  const auto& join = std::get<Join>(start.to_scheduler.at(0).body);
  CHECK(join.role == Role::kServer);
  CHECK(join.address == "tcp://here:1");
  CHECK(join.plan_version == 0);
  CHECK(core.Tick({}, 1999).to_scheduler.empty());
  CHECK(core.Tick({}, 2000).to_scheduler.size() == 1);  // asks again
  const auto joined = JoinAs("server-2");
  REQUIRE_MESSAGE(!joined.exit, joined.exit->error().message);
  CHECK(*core.config() == config);
  const auto load = Scheduler(plan).load;
  REQUIRE(load);
  CHECK(load->server == "server-2-0000000000000001");
  CHECK(load->restore == "/c/step-0");
  CHECK(load->train_samples == 100);
  REQUIRE(load->slots.size() == 2);
  CHECK(load->slots[0] == std::vector<SlotId>{{4}, {5}});
  CHECK(load->slots[1] == std::vector<SlotId>{{6}, {7}});
  CHECK_FALSE(Scheduler(plan).load);  // a repeated plan loads nothing
  CHECK(Refusal(core.HandleWorker("peer", Request(1), 0)) == ErrorCode::kRefused);  // not yet
  CHECK(core.HandleOutcome({load->job_id, 1, Loaded{4, 20}}, 0).to_scheduler.empty());
  const auto ready = core.HandleOutcome({load->job_id, 0, Loaded{3, 10}}, 0);
  REQUIRE(ready.to_scheduler.size() == 1);
  CHECK(std::get<Ready>(ready.to_scheduler[0].body) == Ready{1, 7, 30});
  CHECK(ready.to_scheduler[0].envelope.run == kRun);
}

TEST_CASE_FIXTURE(Fixture, "a request goes to the executors, and their parts make one reply") {
  Load();
  const auto effects = core.HandleWorker("peer", Request(7), 0);
  REQUIRE(effects.work.size() == 1);
  CHECK(effects.work[0].sender() == kWorker);
  const uint64_t job_id = effects.work[0].job_id;
  CHECK(core.HandleOutcome({job_id, 1, Part(5, 1.0f)}, 0).to_workers.empty());
  const Message reply = Reply(core.HandleOutcome({job_id, 0, Part(8, 2.0f)}, 0));
  CHECK(reply.envelope.reply_to == 7);
  CHECK(std::get<TopKReply>(reply.body).ids == std::vector<uint32_t>{8, 5});
}

TEST_CASE_FIXTURE(Fixture, "an executor's error is the reply") {
  Load();
  const uint64_t job_id = core.HandleWorker("peer", Request(7), 0).work.at(0).job_id;
  (void)core.HandleOutcome({job_id, 0, Part(8, 2.0f)}, 0);
  const auto effects =
      core.HandleOutcome({job_id, 1, ErrorReply{ErrorCode::kUnknownBatch, "no"}}, 0);
  CHECK(Refusal(effects) == ErrorCode::kUnknownBatch);
  CHECK(core.HandleOutcome({job_id, 1, Part(5, 1.0f)}, 0).to_workers.empty());  // a closed job
}

TEST_CASE_FIXTURE(Fixture,
                  "who measures the link gets a short answer at once, and leaves no trace") {
  Message request{{RunId(), {4711}, 1, 0, 0}, StatusRequest{Bytes(1000)}};
  const RunId own = Request(1).envelope.run;
  for (const bool loaded : {false, true}) {
    if (loaded) Load();
    for (const RunId run : {RunId(), own}) {
      for (const uint32_t of_plan : {0u, plan.version, plan.version + 1}) {
        CAPTURE(loaded);
        CAPTURE(of_plan);
        request.envelope.run = run;
        request.envelope.plan_version = of_plan;
        const size_t senders = core.senders();
        const auto effects = core.HandleWorker("peer", request, 0);
        CHECK(Refusal(effects) == ErrorCode::kWrongRun);
        REQUIRE(effects.to_workers.size() == 1);
        CHECK(effects.to_workers[0].second->size() < 200);
        CHECK(effects.work.empty());
        CHECK(core.senders() == senders);
      }
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "other runs and stale plans are refused, the latter with the plan") {
  Load();
  Message message = Request(1);
  message.envelope.run = {78};
  CHECK(Refusal(core.HandleWorker("peer", message, 0)) == ErrorCode::kWrongRun);
  message = Request(2);
  message.envelope.plan_version = 0;
  const auto effects = core.HandleWorker("peer", message, 0);
  REQUIRE(effects.to_workers.size() == 2);
  CHECK(std::get<Plan>(Decode(*effects.to_workers[0].second)->body) == plan);
  const auto refusal = Decode(*effects.to_workers[1].second);
  CHECK(std::get<ErrorReply>(refusal->body).code == ErrorCode::kStalePlan);
}

TEST_CASE_FIXTURE(Fixture, "malformed messages are answered and counted") {
  Load();
  const auto malformed = core.HandleMalformed("peer", Failed("no envelope"), 0);
  CHECK(Refusal(malformed) == ErrorCode::kMalformed);
  CHECK(malformed.notices.size() == 1);
  // A second has one line, and one answer to a peer.
  const auto again = core.HandleMalformed("peer", Failed("no envelope"), 999);
  CHECK((again.notices.empty() && again.to_workers.empty()));
  CHECK(core.HandleMalformed("other", Failed("no envelope"), 999).to_workers.size() == 1);
  const auto later = core.HandleMalformed("peer", Failed("no root"), 1000);
  CHECK(Has(later.notices, event::kMessageMalformed, {{"messages", 4}}));
  CHECK(later.to_workers.size() == 1);
  CHECK(core.malformed() == 4);
  const auto beat = core.Tick({}, 1000).to_scheduler;
  REQUIRE(beat.size() == 1);
  CHECK(std::get<Heartbeat>(beat[0].body).malformed == 4);
}

TEST_CASE_FIXTURE(Fixture, "strangers' malformed messages have few answers and one line") {
  Load();
  size_t answers = 0, lines = 0;
  for (int n = 0; n < 10'000; ++n) {
    const auto effects = core.HandleMalformed(std::to_string(n), Failed("no envelope"), n / 10);
    answers += effects.to_workers.size();
    lines += effects.notices.size();
  }
  CHECK(answers == ServerCore::kMalformedAnswers);
  CHECK(lines == 1);
}

TEST_CASE_FIXTURE(Fixture, "a request older than the stored replies is not worked on again") {
  Load();
  for (uint64_t n = 1; n <= ReplyCache::kKept + 1; ++n) {
    const uint64_t job_id = core.HandleWorker("peer", Request(n), 0).work.at(0).job_id;
    (void)core.HandleOutcome({job_id, 0, Part(8, 2.0f)}, 0);
    (void)core.HandleOutcome({job_id, 1, Part(5, 1.0f)}, 0);
  }
  CHECK(Refusal(core.HandleWorker("peer", Request(1), 0)) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "the scheduler has a dead worker's batches and replies dropped") {
  Load();
  const uint64_t job_id = core.HandleWorker("peer", Request(7), 0).work.at(0).job_id;
  const auto effects = Scheduler(DropBatches{kWorker});
  REQUIRE(effects.work.size() == 1);
  CHECK(*effects.work[0].request() == Body{DropBatches{kWorker}});
  (void)core.HandleOutcome({effects.work[0].job_id, 0, Ack{}}, 0);
  CHECK(core.HandleOutcome({effects.work[0].job_id, 1, Ack{}}, 0).to_workers.empty());
  (void)core.HandleOutcome({job_id, 0, Part(8, 2.0f)}, 0);
  (void)core.HandleOutcome({job_id, 1, Part(8, 2.0f)}, 0);
  CHECK(Refusal(core.HandleWorker("peer", Request(7), 0)) == ErrorCode::kFenced);
}

TEST_CASE_FIXTURE(Fixture, "tables are built anew when the scheduler says so, nobody else") {
  Load();
  const auto asked = Scheduler(RebuildTables{1, 3});
  REQUIRE(asked.work.size() == 1);
  CHECK(*asked.work[0].request() == Body{RebuildTables{1, 3}});
  CHECK(Refusal(core.HandleWorker("peer", Request(1, RebuildTables{2, 3}), now)) ==
        ErrorCode::kRefused);
  version = 7;  // of another plan
  CHECK(Scheduler(RebuildTables{2, 3}).work.empty());
}

TEST_CASE_FIXTURE(Fixture, "executors without rows say nothing of the tables") {
  Load();
  const uint64_t measuring = MeasureIn(Tick(6000));
  Measured filled;
  filled.tables = TableFigures{{.empty_share = 0.25, .mean = 5, .p99 = 7, .largest = 9}, 2, 0};
  filled.memory_bytes = 100;
  Measured empty;
  empty.tables = TableFigures{{.empty_share = 1}, 0, 0};
  empty.memory_bytes = 10;
  (void)core.HandleOutcome({measuring, 0, empty}, 0);
  (void)core.HandleOutcome({measuring, 1, filled}, 0);
  const auto beats = Sent<Heartbeat>(Tick(9000));
  REQUIRE(beats.size() == 1);
  const auto& beat = std::get<Heartbeat>(beats[0].body);
  CHECK(beat.bucket_mean == 5);
  CHECK(beat.bucket_empty_share == 0.25f);
  CHECK(beat.hash_round == 2);
  CHECK(beat.memory_used_bytes == 110);
}

TEST_CASE_FIXTURE(Fixture, "under a CPU quota a server is as busy as what it uses of that") {
  // Its executors worked for 0.1 and 0.2 s of a second in which the process used so much.
  const auto busy = [&](double quota, double cpu_s) {
    Fixture fresh;
    fresh.core = TestedServerCore({kSelf, "", "tcp://here:1", 4, 1000, quota});
    fresh.Load();
    Heartbeat usage;
    usage.cpu_seconds = cpu_s;
    const uint64_t measuring = MeasureIn(fresh.core.Tick(usage, 6000));
    for (uint32_t executor = 0; executor < 2; ++executor) {
      Measured part;
      part.load.busy_seconds = executor == 0 ? 0.1 : 0.2;
      (void)fresh.core.HandleOutcome({measuring, executor, part}, 1'000'000);
    }
    const auto beats = Sent<Heartbeat>(fresh.core.Tick(usage, 9000));
    REQUIRE(beats.size() == 1);
    return std::get<Heartbeat>(beats[0].body).load->busy;
  };
  const auto is = [](const std::vector<float>& shares, double first, double second) {
    CHECK(shares.at(0) == doctest::Approx(first));
    CHECK(shares.at(1) == doctest::Approx(second));
  };
  is(busy(0, 0.3), 0.1, 0.2);
  is(busy(1, 0.3), 0.2, 0.4);  // 30 % of the quota
  is(busy(1, 0.9), 0.6, 1);    // more than all nobody works
  is(busy(4, 0.3), 0.1, 0.2);  // the quota is not what holds it up
}

TEST_CASE_FIXTURE(Fixture, "a failed load is reported, and again if the plan comes again") {
  (void)JoinAs("server-2");
  const auto load = Scheduler(plan).load;
  (void)core.HandleOutcome({load->job_id, 0, Loaded{}}, 0);
  const ErrorReply error{ErrorCode::kRefused, "no such shard"};
  const auto effects = core.HandleOutcome({load->job_id, 1, Failed(error.text)}, 0);
  CHECK_FALSE(effects.exit);  // the scheduler decides
  CHECK(effects.to_scheduler.at(0).body == Body{error});
  CHECK(Scheduler(plan).to_scheduler.at(0).body == Body{error});
}

TEST_CASE_FIXTURE(Fixture, "what ends a server") {
  SUBCASE("the end of the run") {
    Load();
    const auto exit = Scheduler(Shutdown{"finished", 0}).exit;
    REQUIRE(exit);
    CHECK(exit->ok());
  }
  SUBCASE("a scheduler that leaves it out") {
    Load();
    const auto exit = Scheduler(Shutdown{"nobody hears it", 75}).exit;
    REQUIRE(exit);
    CHECK(exit->error().kind == ErrorKind::kTryLater);
    CHECK(exit->error().message == "nobody hears it");
  }
  SUBCASE("a refused join") {
    CHECK(Scheduler(ErrorReply{ErrorCode::kRefused, "full"}).exit->error().kind ==
          ErrorKind::kTryLater);
  }
  SUBCASE("another version") {
    CHECK(Scheduler(ErrorReply{ErrorCode::kIncompatible, "old"}).exit->error().kind ==
          ErrorKind::kBadInput);
  }
  SUBCASE("a configuration that it does not understand") {
    CHECK_FALSE(Scheduler(JoinReply{"server", "[model]\nhiden = 3\n", 100}).exit->ok());
  }
}

struct Named : ServerFixture {
  Named() : core({kSelf, "server-3", "tcp://here:1", 4, 1000}) {
    (void)core.Start(0);
    config.cluster.drain_s = 20;
  }
  SortedActions JoinReplied(const std::string& name) {
    return core.HandleScheduler({{kRun, {9}, ++sequence, 0, 0},
                                 testing::JoinReplyWithKeys(name, FormatConfig(config), 100)},
                                0);
  }
  TestedServerCore core;
};

TEST_CASE_FIXTURE(Named, "a server whose name was taken goes by the one that it is given") {
  SUBCASE("taken") {
    const auto joined = JoinReplied("server-3-2");
    CHECK(joined.name == "server-3-2");
    CHECK(Has(joined.notices, event::kJoined, {{"name", "server-3-2"}}));
    CHECK(Has(joined.warnings, event::kServerRenamed, {{"name", "server-3-2"}}));
    CHECK(JoinReplied("server-3-2").notices.empty());
    CHECK(JoinReplied("server-3").name == "server-3");  // it is free by now
    // Whoever stops it does not mean the server that has the name it asked for.
    (void)JoinReplied("server-3-2");
    const auto load = core.HandleScheduler({{kRun, {9}, ++sequence, 0, 1}, Body{plan}}, 0).load;
    REQUIRE(load);
    for (uint32_t e = 0; e < 2; ++e) (void)core.HandleOutcome({load->job_id, e, Loaded{}}, 0);
    const auto drains = Sent<DrainServer>(core.RequestStop(0));
    REQUIRE(drains.size() == 1);
    CHECK(std::get<DrainServer>(drains[0].body).name == "server-3-2");
  }
  SUBCASE("not taken") { CHECK(JoinReplied("server-3").warnings.empty()); }
}

}  // namespace
}  // namespace dslide::server_core_test
