// A server in synchronous training, and what goes through its executors in more than one round.
#include <doctest/doctest.h>

#include <limits>

#include "common/run/combine.h"
#include "server/gate/norm_bound.h"
#include "tests/server/support/sorted_actions.h"
#include "tests/server/support/test_batches.h"
#include "tests/support/tickets.h"

namespace dslide::server_steps_test {
namespace {

using testing::Ticketed;

constexpr RunId kRun{77};
constexpr Incarnation kSelf{1}, kWorker{5}, kOther{6};

// 100 samples in 10 batches, steps of 2; two executors.
Config ServerConfig(int32_t staleness) {
  Config config = SmallConfig(30, 20, 4);
  config.cluster.executors = 2;
  config.train.batch = 10;
  config.train.staleness = staleness;
  if (staleness >= 0) config.train.target_batch = 20;
  ResolveConfig(30, 20, &config);
  return config;
}

struct Fixture {
  Config config;
  Plan plan;
  TestedServerCore core{{kSelf, "", "tcp://here:1", 4, 1000}};

  explicit Fixture(int32_t staleness = 0, uint32_t servers = 1)
      : Fixture(ServerConfig(staleness), servers) {}
  Fixture(Config of, uint32_t servers) : config(std::move(of)) {
    std::vector<PlanServer> names = {{"server", "a", kSelf}, {"server-2", "b", {8}}};
    names.resize(servers);
    plan = EqualPlan(1, config.cluster.slots, std::move(names));
    (void)Scheduler(testing::JoinReplyWithKeys("server", FormatConfig(config), 100));
    const auto load = Scheduler(plan).load;
    REQUIRE(load);
    (void)core.HandleOutcome({load->job_id, 0, Loaded{3, 10}}, 0);
    (void)core.HandleOutcome({load->job_id, 1, Loaded{4, 20}}, 0);
  }

  SortedActions Scheduler(Body body) {
    return core.HandleScheduler({{kRun, {9}, 1, 0, 1}, std::move(body)}, 0);
  }
  SortedActions Worker(uint64_t sequence, Body body, Incarnation worker = kWorker,
                       int64_t now_us = 0) {
    return core.HandleWorker(PeerOf(worker),
                             {{kRun, worker, sequence, 0, 1}, Ticketed(std::move(body), worker)},
                             now_us);
  }
  // A worker that has begun something.
  void Greet(uint64_t sequence) {
    CHECK(Worker(sequence, TopKRequest{Matrix(1, 4), 3, {}, {}}).work.size() == 1);
  }
  static PeerId PeerOf(Incarnation worker) { return "peer-" + std::to_string(worker.value); }
  // Batch number `number`, which has step number / 2.
  EmbedRequest Embed(uint64_t number, bool training = true) const {
    const auto unit = static_cast<uint32_t>(number / config.train.unit_batches);
    EmbedRequest request{{0, unit, 0}, training, {}};
    for (uint32_t i = 0; i < config.train.batch; ++i) {
      request.features.ids.push_back(1);
      request.features.values.push_back(1);
      request.features.EndRow();
    }
    return request;
  }
  // Both executors answer with the same part.
  SortedActions Answer(const ServerWork& work, const Body& part, int64_t now_us = 0) {
    CHECK(core.HandleOutcome({work.job_id, 1, part}, now_us).to_workers.empty());
    return core.HandleOutcome({work.job_id, 0, part}, now_us);
  }
  static Message Reply(const SortedActions& effects, Incarnation worker = kWorker) {
    REQUIRE(effects.to_workers.size() == 1);
    CHECK(effects.to_workers[0].first == PeerOf(worker));
    const auto message = Decode(*effects.to_workers[0].second);
    REQUIRE(message.ok());
    return *message;
  }
  static std::string Refusal(const SortedActions& effects) {
    CHECK(effects.work.empty());
    const Message reply = Reply(effects);
    CHECK(std::get<ErrorReply>(reply.body).code == ErrorCode::kRefused);
    return std::get<ErrorReply>(reply.body).text;
  }
};

struct Synchronous : Fixture {
  Synchronous() : Fixture(0) {}
};
struct OnlyServer : Fixture {
  OnlyServer() : Fixture(-1) {}
};

bool Nothing(const SortedActions& effects) {
  return effects.work.empty() && effects.to_workers.empty() && effects.to_scheduler.empty() &&
         !effects.exit;
}

TEST_CASE_FIXTURE(Synchronous, "a query that begins its batch waits for the step as well") {
  (void)Scheduler(CommitSteps{0});
  ActiveQuery query{Embed(3).batch, Matrix(10, 4), {}, std::vector<uint32_t>(10)};
  for (uint32_t i = 0; i < 10; ++i) query.labels.EndRow();
  Greet(9);
  CHECK(Worker(1, query).work.size() == 1);  // not alone: the EmbedRequest has waited
  query.alone = true;
  CHECK(Nothing(Worker(2, query)));
  ActiveQuery of_wrong_size = query;
  of_wrong_size.hidden = Matrix(9, 4);
  CHECK(Refusal(Worker(3, of_wrong_size)) ==
        "ActiveQuery: the run has no such batch of so many samples");
  const auto committed = Scheduler(CommitSteps{1});
  REQUIRE(committed.work.size() == 2);
  CHECK(*committed.work[1].request() == Ticketed(query, kWorker));
}

TEST_CASE("with staleness so many steps more are open") {
  Fixture f(1);
  (void)f.Scheduler(CommitSteps{1});
  CHECK(f.Worker(1, f.Embed(5)).work.size() == 1);  // step 2
  CHECK(Nothing(f.Worker(2, f.Embed(6))));
  const auto effects = f.Scheduler(CommitSteps{2});
  REQUIRE(effects.work.size() == 2);
  CHECK(*effects.work[1].request() == Ticketed(f.Embed(6), kWorker));
}

TEST_CASE_FIXTURE(Synchronous, "what needs no open step never waits") {
  CHECK(Worker(1, Embed(0, false)).work.size() == 1);
  CHECK(Worker(2, TopKRequest{Matrix(1, 4), 3, {}, {}}).work.size() == 1);
  Fixture asynchronous(-1);
  CHECK(asynchronous.Worker(1, asynchronous.Embed(9)).work.size() == 1);
}

TEST_CASE_FIXTURE(Synchronous, "a commit that is said again is worked on, and answered again") {
  (void)Scheduler(CommitSteps{2});
  for (const uint64_t committed : {2, 1}) {
    const auto effects = Scheduler(CommitSteps{committed});
    REQUIRE(effects.work.size() == 1);
    CHECK(
        core.HandleOutcome({effects.work[0].job_id, 0, StepsCommitted{2}}, 0).to_scheduler.empty());
    CHECK(core.HandleOutcome({effects.work[0].job_id, 1, StepsCommitted{2}}, 0)
              .to_scheduler.at(0)
              .body == Body{StepsCommitted{2}});
  }
  CHECK(Worker(1, Embed(5)).work.size() == 1);  // an older one closes nothing
}

TEST_CASE_FIXTURE(Synchronous, "executors that cannot commit are the scheduler's to know") {
  const auto work = Scheduler(CommitSteps{1}).work.at(0);
  (void)core.HandleOutcome({work.job_id, 0, StepsCommitted{1}}, 0);
  const ErrorReply error{ErrorCode::kRefused, "1 of 2 batches missing"};
  const auto effects = core.HandleOutcome({work.job_id, 1, error}, 0);
  REQUIRE(effects.to_scheduler.size() == 1);
  CHECK(effects.to_scheduler[0].body == Body{error});
}

TEST_CASE_FIXTURE(Synchronous, "a waiting request that is sent again is answered once") {
  (void)Scheduler(CommitSteps{0});
  CHECK(Nothing(Worker(1, Embed(2))));
  CHECK(Nothing(Worker(1, Embed(2))));
  const auto effects = Scheduler(CommitSteps{1});
  REQUIRE(effects.work.size() == 2);
  CHECK(Nothing(Worker(1, Embed(2))));
  CHECK(Answer(effects.work[1], EmbedReply{Matrix(1, 4)}).to_workers.size() == 1);
  CHECK(Scheduler(CommitSteps{2}).work.size() == 1);
}

TEST_CASE_FIXTURE(Synchronous, "no more than a bounded number of requests waits") {
  (void)Scheduler(CommitSteps{0});
  for (uint64_t n = 0; n < RequestTable::kMaxWaiting; ++n) {
    REQUIRE(Nothing(Worker(1, Embed(2 + n % 8), {1000 + n})));
  }
  const auto refused = Worker(1, Embed(2));
  CHECK(Refusal(refused) == "512 requests wait for their steps, no more are taken");
  CHECK(Worker(1, Embed(2)).to_workers == refused.to_workers);  // the same again
  CHECK(Nothing(Worker(1, Embed(2), {1000})));                  // one that waits already
  CHECK(Worker(2, Embed(0)).work.size() == 1);  // of an open step, or no batch's first
  CHECK(Worker(3, Embed(9, false)).work.size() == 1);
  const auto effects = Scheduler(CommitSteps{1});
  CHECK(effects.work.size() == 1 + RequestTable::kMaxWaiting / 4);
  CHECK(Nothing(Worker(4, Embed(8))));
}

TEST_CASE_FIXTURE(Synchronous, "waiting requests keep the order of their steps") {
  (void)Scheduler(CommitSteps{0});
  for (const uint64_t number : {7, 3, 5, 2, 6}) CHECK(Nothing(Worker(number, Embed(number))));
  const auto effects = Scheduler(CommitSteps{3});
  REQUIRE(effects.work.size() == 6);
  const uint64_t expected[] = {3, 2, 5, 7, 6};  // of one step: as they came
  for (size_t i = 0; i < 5; ++i)
    CHECK(*effects.work[i + 1].request() == Ticketed(Embed(expected[i]), kWorker));
}

TEST_CASE_FIXTURE(Synchronous, "workers do not commit steps, nor drop batches") {
  CHECK(Refusal(Worker(1, CommitSteps{3})) == "only the scheduler sends CommitSteps");
  CHECK(Refusal(Worker(2, DropBatches{kOther})) == "only the scheduler sends DropBatches");
  CHECK(Nothing(Worker(3, Embed(0))));  // nothing was opened
}

TEST_CASE_FIXTURE(OnlyServer, "no requests are taken while the executors have enough before them") {
  std::vector<ServerWork> work;
  for (uint64_t n = 1; n <= ServerCore::kMaxOpen; ++n) {
    CHECK(core.AcceptsRequests());
    work.push_back(Worker(n, Embed(n % 10), {1000 + n % 4}).work.at(0));
  }
  CHECK_FALSE(core.AcceptsRequests());
  (void)core.HandleOutcome({work[3].job_id, 0, EmbedReply{Matrix(1, 4)}}, 0);
  CHECK_FALSE(core.AcceptsRequests());
  (void)core.HandleOutcome({work[3].job_id, 1, EmbedReply{Matrix(1, 4)}}, 0);
  CHECK(core.AcceptsRequests());
}

TEST_CASE_FIXTURE(OnlyServer, "a sender has some jobs before the executors, then it waits") {
  std::vector<ServerWork> work;
  for (uint64_t n = 1; n <= ReplyCache::kKept; ++n) {
    for (ServerWork& job : Worker(n, Embed(n % 10)).work) work.push_back(std::move(job));
  }
  CHECK(work.size() == RequestTable::kMostJobsOfSender);
  CHECK(core.AcceptsRequests());
  CHECK(Worker(1, Embed(0), kOther).work.size() == 1);  // another sender's turn
  CHECK(Refusal(Worker(ReplyCache::kKept + 1, Embed(0))) == "more than 128 requests are open");
  (void)core.HandleOutcome({work[0].job_id, 0, EmbedReply{Matrix(1, 4)}}, 0);
  const auto next = core.HandleOutcome({work[0].job_id, 1, EmbedReply{Matrix(1, 4)}}, 0).work;
  REQUIRE(next.size() == 1);
  CHECK(*next[0].request() ==
        testing::Ticketed(Embed((RequestTable::kMostJobsOfSender + 1) % 10), kWorker));
  // A worker that is dropped takes what waits with it.
  CHECK(Scheduler(DropBatches{kWorker}).work.size() == 1);
  (void)core.HandleOutcome({work[1].job_id, 0, EmbedReply{Matrix(1, 4)}}, 0);
  CHECK(core.HandleOutcome({work[1].job_id, 1, EmbedReply{Matrix(1, 4)}}, 0).work.empty());
}

TEST_CASE_FIXTURE(Synchronous, "requests that wait for their step do not keep others out") {
  for (uint64_t n = 0; n < 2 * ServerCore::kMaxOpen; ++n) {
    REQUIRE(Nothing(Worker(1, Embed(4), {1000 + n})));
  }
  CHECK(core.AcceptsRequests());
}

TEST_CASE_FIXTURE(OnlyServer, "a reply is encoded as its request asks, and says how long it took") {
  Matrix third(1, 4);
  third.data = {1.0f / 3, -1.0f / 7, 0.1f, 2};
  for (const WirePrecision precision :
       {WirePrecision::kFp32, WirePrecision::kBf16, WirePrecision::kInt8}) {
    CAPTURE(static_cast<int>(precision));
    const auto sequence = static_cast<uint64_t>(precision) + 1;
    const Envelope envelope{kRun, kWorker, sequence, 0, 1, precision};
    const auto work =
        core.HandleWorker(PeerOf(kWorker), {envelope, Ticketed(Embed(0), kWorker)}, 5000)
            .work.at(0);
    (void)core.HandleOutcome({work.job_id, 0, EmbedReply{third}}, 5500);
    const auto effects = core.HandleOutcome({work.job_id, 1, EmbedReply{Matrix(1, 4)}}, 6234);
    Message reply = Reply(effects);
    CHECK(reply.envelope.service_us == 1234);
    reply.body = EmbedReply{third};
    CHECK(Encode(reply, precision) == *effects.to_workers[0].second);
    // The stored reply has the same bytes.
    CHECK(core.HandleWorker(PeerOf(kWorker), {envelope, Ticketed(Embed(0), kWorker)}, 99000)
              .to_workers == effects.to_workers);
  }
}

TEST_CASE_FIXTURE(Synchronous, "the time that a batch waits for its step counts as service") {
  CHECK(Nothing(Worker(1, Embed(0), kWorker, 1000)));
  const auto work = Scheduler(CommitSteps{0}).work.at(1);
  CHECK(Reply(Answer(work, EmbedReply{Matrix(1, 4)}, 501000)).envelope.service_us == 500000);
}

ActiveQuery Query(bool finish) {
  ActiveQuery query;
  query.batch = {0, 0, 0};
  query.hidden = Matrix(2, 4);
  query.hidden.data = {1, 0, 2, 0, 0.5f, 0.5f, 0, 1};
  query.labels.ids = {3, 4, 14};
  query.labels.offsets = {0, 2, 3};
  query.label_totals = {2, 1};
  query.finish = finish;
  return query;
}

// A server core with real executors behind it.
struct Whole : OnlyServer {
  std::vector<std::unique_ptr<Executor>> executors;
  uint64_t sequence = 0;
  size_t rounds = 0;  // of the last request

  Whole() {
    const std::vector<SlotId> slots = AllSlots(config);
    for (uint32_t e = 0; e < 2; ++e) {
      executors.push_back(std::make_unique<Executor>(
          config, 100, std::span(slots).subspan(4 * e, 4), Purpose::kTraining, BestKernels()));
      executors.back()->Initialise();
    }
  }
  Body Ask(Body body) {
    const Envelope envelope{kRun, kWorker, ++sequence, 0, 1, WirePrecision::kFp32};
    SortedActions effects =
        core.HandleWorker(PeerOf(kWorker), {envelope, Ticketed(std::move(body), kWorker)}, 0);
    for (rounds = 0; !effects.work.empty(); ++rounds) {
      const ServerWork work = effects.work.at(0);
      for (uint32_t e = 0; e < 2; ++e) {
        effects = core.HandleOutcome(
            {work.job_id, e, executors[e]->Handle(work.sender(), *work.request())}, 0);
      }
    }
    const Message reply = Reply(effects);
    CHECK(reply.envelope.reply_to == sequence);
    return reply.body;
  }
  void EmbedTwo() {
    EmbedRequest embed{{0, 0, 0}, true, {}};
    embed.features.ids = {1, 2};
    embed.features.values = {1, 2};
    embed.features.offsets = {0, 1, 2};
    CHECK(std::holds_alternative<EmbedReply>(Ask(embed)));
  }
};

TEST_CASE("one request to the only server gives what two requests give") {
  Whole one, two;
  one.EmbedTwo();
  two.EmbedTwo();
  const Body finished = one.Ask(Query(true));
  CHECK(one.rounds == 2);
  const auto active = std::get<ActiveReply>(two.Ask(Query(false)));
  CHECK(two.rounds == 1);
  const auto gradient = std::get<GradientReply>(two.Ask(PushAfter({0, 0, 0}, active)));
  const auto& reply = std::get<GradientReply>(finished);
  CHECK(reply.partial == gradient.partial);
  REQUIRE(reply.active);
  CHECK(*reply.active == active);
  CHECK_FALSE(gradient.active);
  // Both batches are where EmbedPush is due, and the models are alike.
  CHECK(std::holds_alternative<Ack>(one.Ask(EmbedPush{{0, 0, 0}, Matrix(2, 4)})));
  const TopKRequest top{Query(true).hidden, 5, Search::kExact, {}};
  CHECK(one.Ask(top) == two.Ask(top));
}

TEST_CASE_FIXTURE(OnlyServer, "a request in two rounds is one: repeated, timed and counted") {
  Greet(9);
  const auto first = Worker(1, Query(true), kWorker, 1000).work.at(0);
  ActiveReply active;
  active.max = active.sum_exp = active.target_logit = {1, 1};
  active.active = {3, 3};
  active.active_rows = 3;
  (void)core.HandleOutcome({first.job_id, 0, active}, 1500);
  const auto between = core.HandleOutcome({first.job_id, 1, active}, 2000);
  CHECK(between.to_workers.empty());
  REQUIRE(between.work.size() == 1);
  CHECK(std::holds_alternative<GradientPush>(*between.work[0].request()));
  CHECK(between.work[0].sender() == kWorker);
  CHECK(Nothing(Worker(1, Query(true), kWorker, 2500)));  // in progress
  const auto second = between.work[0];
  const auto last = Answer(second, GradientReply{Matrix(2, 4)}, 4000);
  const Message reply = Reply(last);
  CHECK(reply.envelope.service_us == 3000);
  CHECK(std::get<GradientReply>(reply.body).active->active == std::vector<uint32_t>{6, 6});
  CHECK(Worker(1, Query(true)).to_workers == last.to_workers);
}

TEST_CASE_FIXTURE(OnlyServer, "an error in the second round is the reply, and no numbers end it") {
  Greet(9);
  ActiveReply active;
  active.max = active.sum_exp = active.target_logit = {1, 1};
  active.active = {3, 3};
  const auto second = [&](uint64_t sequence) {
    const auto first = Worker(sequence, Query(true)).work.at(0);
    return Answer(first, active).work.at(0);
  };
  const auto refused = Answer(second(1), ErrorReply{ErrorCode::kUnknownBatch, "dropped"});
  CHECK(std::get<ErrorReply>(Reply(refused).body).code == ErrorCode::kUnknownBatch);
  Matrix bad(2, 4);
  bad.data[3] = std::numeric_limits<float>::quiet_NaN();
  const auto diverged = Answer(second(2), GradientReply{bad});
  CHECK(diverged.to_workers.empty());
  REQUIRE(diverged.exit);
  CHECK_FALSE(diverged.exit->ok());
  CHECK(
      std::get<ErrorReply>(diverged.to_scheduler.at(0).body).text.starts_with("training diverged"));
}

// Workers with keys of their own.
constexpr Incarnation kLiar{uint64_t{7} << 32}, kHonest{uint64_t{8} << 32};

struct OutOfRange : OnlyServer {
  SortedActions Rank(uint64_t sequence, uint32_t batch, Incarnation worker) {
    TopKRequest top{Matrix(1, 4), 1, {}, {}};
    top.batch = {0, 0, batch};
    return Answer(Worker(sequence, top, worker).work.at(0), TopKReply{{0, 1}, {3}, {0x1p61f}});
  }
};

TEST_CASE_FIXTURE(OutOfRange, "numbers out of range that one worker asked for do not end a run") {
  const auto refused = Rank(1, 0, kLiar);
  CHECK_FALSE(refused.exit);
  CHECK(std::get<ErrorReply>(Reply(refused, kLiar).body).text ==
        "TopKRequest: its numbers lead to numbers that are out of range");
}

TEST_CASE_FIXTURE(OutOfRange, "numbers out of range that two workers find end the run") {
  CHECK_FALSE(Rank(1, 0, kLiar).exit);
  CHECK_FALSE(Rank(1, 1, kHonest).exit);  // another batch
  CHECK(Rank(2, 0, kHonest).exit);
}

TEST_CASE_FIXTURE(OutOfRange, "the only worker's numbers out of range end the run in the end") {
  for (uint64_t i = 1; i < NormBound::kTries; ++i) CHECK_FALSE(Rank(i, 0, kLiar).exit);
  CHECK(Rank(NormBound::kTries, 0, kLiar).exit);
}

TEST_CASE("where there are two servers none can finish alone") {
  Fixture f(-1, 2);
  CHECK(f.Refusal(f.Worker(1, Query(true))) ==
        "ActiveQuery: finish is for a server that has all neurons");
  f.Greet(9);
  CHECK(f.Worker(2, Query(false)).work.size() == 1);
}

TEST_CASE("of two servers the one with all neurons can finish alone") {
  Config config = ServerConfig(-1);
  config.cluster.input_slots = static_cast<int32_t>(config.cluster.slots) / 2;
  Fixture f(config, 2);
  f.Greet(9);
  CHECK(f.Worker(1, Query(true)).work.size() == 1);
}

}  // namespace
}  // namespace dslide::server_steps_test
