// What a worker tells of servers that do not answer while others do.
#include <algorithm>

#include "tests/support/events.h"
#include "tests/worker/worker_fixture.h"
#include "worker/events.h"

namespace dslide::silent_server_test {
namespace {

constexpr int64_t kSilentMs = 20000;  // twice cluster.request_timeout_ms

// One batch in flight, on two servers with the incarnations 101 and 102.
struct OneBatchOnTwo : WorkerFixture {
  explicit OneBatchOnTwo(const Config& settings = {}) : WorkerFixture(2, settings) {
    plan.servers[0].incarnation = {101};
    plan.servers[1].incarnation = {102};
    now = 1;
    JoinAndPlan();
    requests = Requests(Scheduler(Grant(1)));
    REQUIRE(requests.size() == 2);
  }
  void Answer(size_t server) {
    const WorkerCore::Outgoing request = requests[server];
    const auto effects = Server(request, WorkerFixture::Answer(request.message.body));
    if (const auto next = Requests(effects); !next.empty()) requests = next;
  }
  // What the next heartbeat says, sent at `at` or a little later.
  std::vector<uint64_t> SilentAt(int64_t at) {
    const auto beats = ToScheduler<Heartbeat>(Tick(at));
    REQUIRE(beats.size() == 1);
    return beats[0].silent_servers;
  }

  std::vector<WorkerCore::Outgoing> requests;
};

TEST_CASE_FIXTURE(OneBatchOnTwo,
                  "a server that does not answer while another one does is told of") {
  now = 1000;
  Answer(0);
  CHECK(SilentAt(1000 + kSilentMs - 1).empty());
  CHECK(SilentAt(1000 + kSilentMs + 1000) == std::vector<uint64_t>{102});
  CHECK(Has(last.notices, event::kServerSilent,
            {{"server", "b"}, {"why", "does not answer, other servers do"}}));
  SilentAt(1000 + kSilentMs + 3000);
  CHECK(last.notices.empty());  // said once
  Answer(1);
  CHECK(SilentAt(1000 + kSilentMs + 5000).empty());
}

TEST_CASE_FIXTURE(OneBatchOnTwo,
                  "when no server answers, the log says so and the scheduler is not told") {
  Tick(kSilentMs / 2 + 1000);  // the requests are sent again
  CHECK(SilentAt(kSilentMs + 2000).empty());
  for (const char* server : {"a", "b"}) {
    CHECK(
        Has(last.notices, event::kServerSilent, {{"server", server}, {"why", "does not answer"}}));
  }
}

TEST_CASE("a batch that waits for an earlier step says nothing of its servers") {
  Config config;
  config.train.staleness = 0;
  config.train.batch = 2;
  config.train.target_batch = 8;
  OneBatchOnTwo one(config);
  one.Tick(kSilentMs / 2 + 1000);  // the requests are sent again
  CHECK(one.SilentAt(kSilentMs + 2000).empty());
  CHECK(one.last.notices.empty());
  one.now = kSilentMs + 3000;
  one.Answer(0);
  one.Answer(1);  // now they are asked for neurons, and have no excuse
  one.Tick(one.now + kSilentMs / 2 + 1000);
  CHECK(one.SilentAt(one.now + kSilentMs + 2000).empty());
  CHECK(one.last.notices.size() == 2);
}

TEST_CASE_FIXTURE(OneBatchOnTwo, "a server whose replies do not fit is told of sooner") {
  constexpr int64_t kUselessMs = kSilentMs / 10;
  for (now = 1000; now < 1000 + kUselessMs; now += 1000) {
    Answer(0);
    const WorkerCore::Outgoing request = requests[1];
    Server(request, EmbedReply{Matrix(1, 1)});  // the batch is given up
    LeaseGrant grant = Grant(1);
    grant.unit = static_cast<uint32_t>(now / 1000);
    requests = Requests(Scheduler(grant));
    REQUIRE(requests.size() == 2);
  }
  CHECK(SilentAt(now) == std::vector<uint64_t>{102});
  CHECK(Has(last.notices, event::kServerSilent,
            {{"server", "b"}, {"why", "gives answers that do not fit what it is asked"}}));
}

// Server a has all slots and has answered many batches; b is in the plan and has answered
// greetings.
struct NewcomerWithSlots : WorkerFixture {
  NewcomerWithSlots() {
    plan.servers[0].incarnation = {101};
    plan.servers[1].incarnation = {102};
    const std::vector<uint16_t> shared = plan.slot_owner;
    plan.slot_owner.assign(shared.size(), 0);
    now = 1;
    JoinAndPlan();
    for (uint32_t unit = 2; unit < 40; ++unit) {
      AnswerAll(Requests(Scheduler(Grant(1, LeaseKind::kTrain, unit))));
      Acknowledge(last);
    }
    plan.version = 2;
    plan.generation = 1;  // the same
    plan.slot_owner = shared;
    Scheduler(plan, 0, 2);
    requests = Requests(Scheduler(Grant(1, LeaseKind::kTrain, 40), 0, 2));
    REQUIRE(requests.size() == 2);
  }
  std::vector<uint64_t> SilentAt(int64_t at) {
    std::vector<uint64_t> silent;
    for (const Heartbeat& beat : ToScheduler<Heartbeat>(Tick(at))) silent = beat.silent_servers;
    return silent;
  }

  std::vector<WorkerCore::Outgoing> requests;
};

TEST_CASE_FIXTURE(NewcomerWithSlots, "a new server that does not answer is told of in a second") {
  Server(requests[0], Answer(requests[0].message.body));
  CHECK(SilentAt(900).empty());
  CHECK(SilentAt(2100) == std::vector<uint64_t>{102});
}

TEST_CASE_FIXTURE(NewcomerWithSlots,
                  "a new server that refuses is told of while all batches are set aside") {
  const auto refuse = [&](const std::vector<WorkerCore::Outgoing>& open) {
    REQUIRE(open.size() == 2);
    Server(open[0], Answer(open[0].message.body));
    Server(open[1], ErrorReply{ErrorCode::kRefused, "not now"});
  };
  refuse(requests);
  refuse(Requests(Tick(500)));  // it begins again
  CHECK(SilentAt(900).empty());
  CHECK(SilentAt(1200) == std::vector<uint64_t>{102});
}

TEST_CASE_FIXTURE(NewcomerWithSlots, "a new server that refuses is told of in a second") {
  Server(requests[0], Answer(requests[0].message.body));
  Server(requests[1], ErrorReply{ErrorCode::kRefused, "not now"});
  CHECK(SilentAt(900).empty());
  CHECK(SilentAt(2100) == std::vector<uint64_t>{102});
}

TEST_CASE_FIXTURE(OneBatchOnTwo, "another plan's server begins with a clean sheet") {
  now = 1000;
  Answer(0);
  REQUIRE(SilentAt(2000 + kSilentMs) == std::vector<uint64_t>{102});
  plan.version = 2;
  plan.generation = 2;
  Scheduler(plan, 0, 2);
  CHECK(SilentAt(4000 + kSilentMs).empty());
}

std::vector<uint32_t> To(const std::vector<WorkerCore::Outgoing>& requests) {
  std::vector<uint32_t> servers;
  for (const auto& request : requests) servers.push_back(request.to);
  return servers;
}

TEST_CASE_FIXTURE(OneBatchOnTwo, "a server that sends what is no message is told of sooner") {
  now = 1000;
  Answer(0);
  core.OnMalformed(1, 1000 * now);
  CHECK(SilentAt(1000 + kSilentMs / 10 - 1).empty());
  CHECK(SilentAt(1000 + kSilentMs / 10 + 1000) == std::vector<uint64_t>{102});
}

// Server a has all input rows, b and c have the neurons.
struct InputOnOne : WorkerFixture {
  InputOnOne() : WorkerFixture(3, Settings()) {
    for (uint32_t s = 0; s < 3; ++s) plan.servers[s].incarnation = {101 + s};
    for (uint32_t s = 0; s < plan.slot_owner.size(); ++s) {
      const bool input = InputSlots(config.cluster).Has({s});
      plan.slot_owner[s] = static_cast<uint16_t>(input ? 0 : 1 + s % 2);
    }
    now = 1;
    JoinAndPlan();
  }
  static Config Settings() {
    Config config;
    config.cluster.input_slots = 3;
    return config;
  }
};

TEST_CASE_FIXTURE(InputOnOne, "the first batch greets all servers of the plan, later ones do not") {
  const auto first = Requests(Scheduler(Grant(1)));
  CHECK(To(first) == std::vector<uint32_t>{0, 1, 2});
  (void)Server(first[0], Answer(first[0].message.body));
  (void)Server(first[1], Answer(first[1].message.body));
  CHECK(Requests(last).empty());  // c has not answered
  auto requests = Requests(Server(first[2], Answer(first[2].message.body)));
  CHECK(To(requests) == std::vector<uint32_t>{1, 2});
  LeaseGrant grant = Grant(1);
  grant.unit++;
  CHECK(To(Requests(Scheduler(grant))) == std::vector<uint32_t>{0});
}

TEST_CASE_FIXTURE(InputOnOne,
                  "a server that is asked alone is told of if the others answer probes") {
  const auto first = Requests(Scheduler(Grant(1)));
  for (const auto& request : first) (void)Server(request, Answer(request.message.body));
  LeaseGrant grant = Grant(1);
  grant.unit++;
  REQUIRE(To(Requests(Scheduler(grant))) == std::vector<uint32_t>{0});
  const auto answer_others = [&] {
    for (const auto& request : Requests(last)) {
      if (request.to != 0) (void)Server(request, Answer(request.message.body));
    }
  };
  std::vector<uint64_t> silent;
  for (int64_t at = 1000; at <= 2 * kSilentMs; at += 1000) {
    (void)Tick(at);
    for (const Heartbeat& beat : ToScheduler<Heartbeat>(last)) silent = beat.silent_servers;
    answer_others();
  }
  CHECK(silent == std::vector<uint64_t>{101});
}

// Synchronous training. Server a has neurons only, b the other neurons and all input rows.
struct InputOnOneOfTwo : WorkerFixture {
  InputOnOneOfTwo() : WorkerFixture(2, Settings()) {
    for (uint32_t s = 0; s < 2; ++s) plan.servers[s].incarnation = {101 + s};
    now = 1;
    JoinAndPlan();
  }
  static Config Settings() {
    Config config;
    config.cluster.input_slots = 3;
    config.train.batch = 2;
    config.train.target_batch = 8;
    config.train.staleness = 0;
    return config;
  }
  // Who is told of while the training request waits for its step, and all else is answered.
  std::vector<uint64_t> SilentWhileWaiting() {
    std::vector<uint64_t> silent;
    const int64_t begin = now;
    for (int64_t at = begin + 500; at <= begin + 3 * kSilentMs; at += 500) {
      const auto sent = Tick(at);
      for (const Heartbeat& beat : ToScheduler<Heartbeat>(sent)) {
        silent.insert(silent.end(), beat.silent_servers.begin(), beat.silent_servers.end());
      }
      for (const auto& request : Requests(sent)) {
        const auto* embed = std::get_if<EmbedRequest>(&request.message.body);
        const bool waits = embed != nullptr && embed->training;
        if (!waits) (void)Server(request, Answer(request.message.body));
      }
    }
    return silent;
  }
};

TEST_CASE_FIXTURE(InputOnOneOfTwo,
                  "a server that holds the first batch back for its step is not silent") {
  const auto first = Requests(Scheduler(Grant(1)));
  REQUIRE(To(first) == std::vector<uint32_t>{0, 1});
  (void)Server(first[0], Answer(first[0].message.body));
  CHECK(SilentWhileWaiting().empty());
}

TEST_CASE_FIXTURE(InputOnOneOfTwo,
                  "a server that holds a later batch back for its step is not silent") {
  AnswerAll(Requests(Scheduler(Grant(1))));
  REQUIRE(To(Requests(Scheduler(Grant(1, LeaseKind::kTrain, 4)))) == std::vector<uint32_t>{1});
  CHECK(SilentWhileWaiting().empty());
}

TEST_CASE_FIXTURE(InputOnOneOfTwo, "an error in reply to a probe leaves the batch alone") {
  const auto first = Requests(Scheduler(Grant(1)));
  (void)Server(first[0], Answer(first[0].message.body));
  const auto probes = Requests(Tick(3000));
  REQUIRE(To(probes) == std::vector<uint32_t>{0, 1});
  (void)Server(probes[0], ErrorReply{ErrorCode::kWrongRun, "another life"});
  CHECK(last.notices.empty());
  (void)Server(first[1], Answer(first[1].message.body));
  CHECK(To(Requests(last)) == std::vector<uint32_t>{0, 1});  // the next stage
}

}  // namespace
}  // namespace dslide::silent_server_test
