// A worker with several batches in flight over one simulated link to one server: what it makes of
// the link while its own messages queue on it.
#include <map>

#include "common/base/random.h"
#include "tests/worker/worker_fixture.h"

namespace dslide::busy_link_test {
namespace {

struct LinkModel {
  double bits_per_second;  // each way
  int64_t round_trip_us;
  int64_t service_us;  // of each request, at most; one after another
  bool int8_halves = true;
};

class BusyLink {
 public:
  BusyLink(LinkModel model, Config config) : model_(model), f_(1, std::move(config)) {
    f_.now = 1;
    now_us_ = 1000;
    f_.JoinAndPlan(1'000'000);
  }

  void RunUntil(int64_t end_us) {
    while (now_us_ < end_us) {
      while (events_.size() < 40 && leased_ < done_ + 40) {
        Take(f_.Scheduler(WorkerFixture::Grant(1, LeaseKind::kTrain, leased_++)));
      }
      const auto first = events_.begin();
      now_us_ = first->first;
      const Event event = first->second;
      events_.erase(first);
      if (event.at_server) {
        Serve(event);
      } else {
        Deliver(event);
      }
    }
  }
  Heartbeat Beat() {
    Message message{{WorkerFixture::kRun, {9}, 1, 0, 1}, HeartbeatReply{}};
    (void)f_.core.Handle(WorkerCore::kScheduler, message, 10, now_us_);
    beat_us_ = std::max(beat_us_, now_us_) + 2'000'000;
    for (const auto& out : f_.core.Tick({}, beat_us_).send) {
      const auto* beat = std::get_if<Heartbeat>(&out.message.body);
      if (beat != nullptr) return *beat;
    }
    FAIL("no heartbeat");
    return {};
  }
  WirePrecision precision() const { return precision_; }
  uint64_t done() const { return done_; }

 private:
  struct Event {
    WorkerCore::Outgoing request;
    bool at_server;
    int64_t arrived_us;  // at the server
    int64_t served_us;
  };

  // As with H = 512 and 256 samples in bf16.
  int64_t WireUs(const WorkerCore::Outgoing& request, size_t bytes) const {
    const bool half = model_.int8_halves && request.precision == WirePrecision::kInt8;
    return static_cast<int64_t>(8e6 * static_cast<double>(half ? bytes / 2 : bytes) /
                                model_.bits_per_second);
  }
  static size_t RequestBytes(const Body& body) {
    if (std::holds_alternative<EmbedRequest>(body)) return 30000;
    if (std::holds_alternative<ActiveQuery>(body)) return 140000;
    return std::get<EmbedPush>(body).next ? 170000 : 140000;
  }
  static size_t ReplyBytes(const Body& body) {
    if (std::holds_alternative<ActiveQuery>(body)) return 150000;
    const auto* push = std::get_if<EmbedPush>(&body);
    return push != nullptr && !push->next ? 100 : 262000;
  }
  size_t OnWire(const WorkerCore::Outgoing& request, size_t bytes) const {
    return model_.int8_halves && request.precision == WirePrecision::kInt8 ? bytes / 2 : bytes;
  }

  void Take(const WorkerCore::Effects& effects) {
    for (const auto& request : WorkerFixture::Requests(effects)) {
      const size_t bytes = RequestBytes(request.message.body);
      f_.core.NoteSent(request.message, OnWire(request, bytes));
      up_free_us_ = std::max(up_free_us_, now_us_) + WireUs(request, bytes);
      precision_ = request.precision;
      const int64_t at_us = up_free_us_ + model_.round_trip_us / 2;
      events_.emplace(at_us, Event{request, true, at_us, 0});
    }
    done_ += WorkerFixture::ToScheduler<BatchDone>(effects).size();
  }
  void Serve(Event event) {
    const auto work_us = static_cast<int64_t>(static_cast<double>(model_.service_us) *
                                              (0.5 + 0.5 * random_.Uniform()));
    server_free_us_ = std::max(server_free_us_, now_us_) + work_us;
    event.served_us = server_free_us_ - event.arrived_us;
    event.at_server = false;
    down_free_us_ = std::max(down_free_us_, server_free_us_) +
                    WireUs(event.request, ReplyBytes(event.request.message.body));
    events_.emplace(down_free_us_ + model_.round_trip_us / 2, event);
  }
  void Deliver(const Event& event) {
    const Body& body = event.request.message.body;
    Envelope envelope{WorkerFixture::kRun, {8}, 1, event.request.message.envelope.sequence, 1};
    envelope.service_us = static_cast<uint32_t>(event.served_us);
    Take(f_.core.Handle(event.request.to, {envelope, WorkerFixture::Answer(body)},
                        OnWire(event.request, ReplyBytes(body)), now_us_));
  }

  LinkModel model_;
  WorkerFixture f_;
  Random random_{3};
  int64_t now_us_;
  int64_t beat_us_ = 0;
  int64_t up_free_us_ = 0, down_free_us_ = 0, server_free_us_ = 0;
  uint64_t done_ = 0;
  uint32_t leased_ = 0;
  WirePrecision precision_ = WirePrecision::kFp32;
  std::multimap<int64_t, Event> events_;
};

Config InFlight(uint32_t batches) {
  Config config;
  config.train.batches_in_flight = batches;
  return config;
}

TEST_CASE("a worker finds a full link full, however many of its own messages queue on it") {
  for (const uint32_t in_flight : {1u, 2u, 3u, 4u, 8u}) {
    for (const double mbits : {20.0, 100.0}) {
      CAPTURE(in_flight);
      CAPTURE(mbits);
      BusyLink link({1e6 * mbits, 1000, 5000}, InFlight(in_flight));
      link.RunUntil(12'000'000);
      CHECK(link.precision() == WirePrecision::kInt8);
      link.RunUntil(60'000'000);
      CHECK(link.precision() == WirePrecision::kInt8);
      const Heartbeat beat = link.Beat();
      CAPTURE(beat.bits_per_second);
      CHECK(link.done() > 100);
      CHECK(static_cast<double>(beat.bits_per_second) < 1.4e6 * mbits);
      CHECK(static_cast<double>(beat.bits_per_second) > 0.7e6 * mbits);
    }
  }
}

TEST_CASE("a worker with a quick link finds it idle, however many batches are in flight") {
  for (const uint32_t in_flight : {2u, 4u, 8u}) {
    CAPTURE(in_flight);
    BusyLink link({1e10, 200, 20000}, InFlight(in_flight));
    link.RunUntil(60'000'000);
    CHECK(link.precision() == WirePrecision::kBf16);
  }
}

}  // namespace
}  // namespace dslide::busy_link_test
