// What a worker tells of servers that do not answer while others do.
#include <algorithm>

#include "tests/worker/worker_fixture.h"

namespace dslide::silent_server_test {
namespace {

constexpr int64_t kSilentMs = 20000;  // twice cluster.request_timeout_ms

// One batch in flight, on two servers with the incarnations 101 and 102.
struct OneBatchOnTwo : WorkerFixture {
  OneBatchOnTwo() {
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
  CHECK(std::any_of(last.notices.begin(), last.notices.end(), [](const std::string& line) {
    return line == "b at tcp://b does not answer, other servers do";
  }));
  SilentAt(1000 + kSilentMs + 3000);
  CHECK(last.notices.empty());  // said once
  Answer(1);
  CHECK(SilentAt(1000 + kSilentMs + 5000).empty());
}

TEST_CASE_FIXTURE(OneBatchOnTwo,
                  "when no server answers, the log says so and the scheduler is not told") {
  Tick(kSilentMs / 2 + 1000);  // the requests are sent again
  CHECK(SilentAt(kSilentMs + 2000).empty());
  CHECK(last.notices ==
        std::vector<std::string>{"a at tcp://a does not answer", "b at tcp://b does not answer"});
}

TEST_CASE_FIXTURE(OneBatchOnTwo, "a server whose replies do not fit is as good as silent") {
  for (now = 1000; now < 1000 + 2 * kSilentMs; now += 1000) {
    Answer(0);
    const WorkerCore::Outgoing request = requests[1];
    Server(request, EmbedReply{Matrix(1, 1)});  // the batch is given up
    LeaseGrant grant = Grant(1);
    grant.unit = static_cast<uint32_t>(now / 1000);
    requests = Requests(Scheduler(grant));
    REQUIRE(requests.size() == 2);
  }
  CHECK(SilentAt(now) == std::vector<uint64_t>{102});
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

}  // namespace
}  // namespace dslide::silent_server_test
