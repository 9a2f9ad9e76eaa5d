// How a worker chooses the precision of its links.
#include "tests/worker/worker_fixture.h"

namespace dslide::wire_precision_test {
namespace {

// A server behind a link: trains batches one after another, each message takes the round trip and
// its bytes' time on the link. The worker is idle for `pause_ms` between two batches.
struct MeteredLink {
  WorkerFixture f;
  uint32_t unit = 0;

  explicit MeteredLink(Config config) : f(1, std::move(config)) {
    f.now = 1;
    f.JoinAndPlan(1'000'000);
  }
  // Returns the precision of the last request.
  WirePrecision Train(int64_t until_ms, int64_t pause_ms) {
    constexpr size_t kRequest[] = {40000, 100000, 100000}, kReply[] = {100000, 100000, 200};
    constexpr size_t kBytesPerMs = 1000;  // 8 Mbit/s
    WirePrecision precision = WirePrecision::kFp32;
    while (f.now < until_ms) {
      Outbox requests =
          WorkerFixture::Requests(f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, unit++)));
      for (int stage = 0; stage < 3; ++stage) {
        REQUIRE(requests.size() == 1);
        precision = requests[0].precision;
        CHECK(requests[0].message.envelope.reply_precision == precision);
        f.core.NoteSent(requests[0].message, kRequest[stage]);
        f.now += 20 + static_cast<int64_t>((kRequest[stage] + kReply[stage]) / kBytesPerMs);
        requests = WorkerFixture::Requests(
            f.Server(requests[0], WorkerFixture::Answer(requests[0].message.body), kReply[stage]));
      }
      f.now += pause_ms;
    }
    return precision;
  }
  uint32_t Int8Links() {
    (void)f.Tick(f.now);
    (void)f.Scheduler(HeartbeatReply{});
    const auto beats = WorkerFixture::ToScheduler<Heartbeat>(f.Tick(f.now + 2000));
    REQUIRE(beats.size() == 1);
    return beats[0].int8_links;
  }
};

TEST_CASE("wire = auto: a link that bytes keep busy gets int8, one that is idle bf16 again") {
  MeteredLink link{Config()};
  CHECK(link.Train(3000, 0) == WirePrecision::kBf16);  // nothing is known yet
  CHECK(link.Train(10000, 0) == WirePrecision::kInt8);
  CHECK(link.Int8Links() == 1);
  CHECK(link.Train(20000, 0) == WirePrecision::kInt8);
  CHECK(link.Train(35000, 1000) == WirePrecision::kInt8);  // between the two bounds it stays
  CHECK(link.Train(120000, 9000) == WirePrecision::kBf16);
  CHECK(link.Int8Links() == 0);
}

TEST_CASE("replies to requests that were sent again tell nothing of the link") {
  // They come right after the repetition: an answer to which of the two?
  Config config;
  config.cluster.request_timeout_ms = 500;
  WorkerFixture f(1, config);
  f.JoinAndPlan();
  for (uint32_t unit = 0; unit < 20; ++unit) {
    Outbox requests =
        WorkerFixture::Requests(f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, unit)));
    for (int stage = 0; stage < 3; ++stage) {
      REQUIRE(requests.size() == 1);
      (void)f.Scheduler(HeartbeatReply{});
      const Outbox again =
          WorkerFixture::Requests(f.Tick(f.now + f.config.cluster.request_timeout_ms));
      REQUIRE(again.size() == 1);
      f.core.NoteSent(again[0].message, 1000);
      f.now += 1;
      requests = WorkerFixture::Requests(f.Server(
          again[0], WorkerFixture::Answer(again[0].message.body), stage == 1 ? 100 : 90000));
    }
  }
  const auto beats = WorkerFixture::ToScheduler<Heartbeat>(f.Tick(f.now + 2000));
  REQUIRE(beats.size() == 1);
  CHECK(beats[0].bits_per_second == 0);
}

TEST_CASE("wire = auto: a quick link stays in bf16, a configured precision and steps stay theirs") {
  MeteredLink idle{Config()};
  CHECK(idle.Train(30000, 4000) == WirePrecision::kBf16);
  for (const auto& [wire, precision] : {std::pair{Wire::kBf16, WirePrecision::kBf16},
                                        {Wire::kFp32, WirePrecision::kFp32},
                                        {Wire::kInt8, WirePrecision::kInt8}}) {
    Config config;
    config.cluster.wire = wire;
    MeteredLink fixed{config};
    CHECK(fixed.Train(20000, 0) == precision);
    CHECK(fixed.Train(40000, 4000) == precision);
  }
  Config synchronous;
  synchronous.train.staleness = 0;
  MeteredLink steps{synchronous};
  CHECK(steps.Train(30000, 0) == WirePrecision::kBf16);
}

TEST_CASE("wire = auto: evaluations are rounded alike on all links, for predictions are compared") {
  MeteredLink link{Config()};
  CHECK(link.Train(10000, 0) == WirePrecision::kInt8);
  const Outbox requests =
      WorkerFixture::Requests(link.f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kEvaluate, 1)));
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].precision == WirePrecision::kBf16);
  CHECK(requests[0].message.envelope.reply_precision == WirePrecision::kBf16);
}

TEST_CASE("wire = auto: a request that is sent again keeps the precision it had") {
  MeteredLink link{Config()};
  // A request of the time before int8 that stays without reply.
  const Outbox old =
      WorkerFixture::Requests(link.f.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, 9999)));
  REQUIRE(old.size() == 1);
  CHECK(old[0].precision == WirePrecision::kBf16);
  CHECK(link.Train(10000, 0) == WirePrecision::kInt8);
  const Outbox again =
      WorkerFixture::Requests(link.f.Tick(link.f.now + link.f.config.cluster.request_timeout_ms));
  REQUIRE(again.size() == 1);
  CHECK(again[0].precision == WirePrecision::kBf16);
  CHECK(again[0].message == old[0].message);
}

}  // namespace
}  // namespace dslide::wire_precision_test
