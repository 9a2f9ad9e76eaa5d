// The number of batches in flight over simulated links: events, no clock.
#include "worker/in_flight_control.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

namespace dslide::in_flight_control_test {
namespace {

// Workers before one server. A batch is kStages requests one after another; a request takes
// `latency_us` there and back, on the way there the worker's link for `link_us`, and the server for
// `service_us`. Link and server take one after another.
class Network {
 public:
  static constexpr int kStages = 3;

  struct Worker {
    InFlightControl control;
    int64_t latency_us = 0;
    int64_t link_us = 0;
    uint32_t in_flight = 0;
    int64_t link_free_us = 0;
    uint64_t done = 0;
    std::vector<uint32_t> limits = {};  // when batches were done
  };

  Network(std::vector<Worker> workers, int64_t service_us)
      : workers_(std::move(workers)), service_us_(service_us) {}

  void RunUntil(int64_t end_us) {
    for (size_t w = 0; w < workers_.size(); ++w) Fill(w);
    while (!events_.empty() && events_.begin()->first <= end_us) {
      const auto [at, event] = *events_.begin();
      events_.erase(events_.begin());
      now_us_ = at;
      if (event.at_server) {
        Serve(event);
      } else {
        Arrive(event);
      }
    }
    now_us_ = end_us;
  }
  void SetLatency(int64_t latency_us) {
    for (Worker& worker : workers_) worker.latency_us = latency_us;
  }
  Worker& worker(size_t w) { return workers_[w]; }
  uint32_t limit(size_t w = 0) const { return workers_[w].control.limit(); }
  // Share of the time since the last call for which the server was busy.
  double Busy() {
    const double busy =
        static_cast<double>(busy_us_ - busy_before_us_) / static_cast<double>(now_us_ - since_us_);
    busy_before_us_ = busy_us_;
    since_us_ = now_us_;
    return busy;
  }

 private:
  struct Event {
    size_t worker;
    int stage;
    bool at_server;  // else: the reply is back
    int64_t started_us;
    int64_t at_servers_us;
  };

  void Fill(size_t w) {
    for (Worker& worker = workers_[w]; worker.in_flight < worker.control.limit();) {
      ++worker.in_flight;
      Send({w, 0, true, now_us_, 0});
    }
  }
  void Send(Event event) {
    Worker& worker = workers_[event.worker];
    worker.link_free_us = std::max(now_us_, worker.link_free_us) + worker.link_us;
    event.at_server = true;
    events_.emplace(worker.link_free_us + worker.latency_us / 2, event);
  }
  void Serve(Event event) {
    server_free_us_ = std::max(now_us_, server_free_us_) + service_us_;
    busy_us_ += service_us_;
    event.at_servers_us += server_free_us_ - now_us_;
    event.at_server = false;
    events_.emplace(server_free_us_ + workers_[event.worker].latency_us / 2, event);
  }
  void Arrive(Event event) {
    if (++event.stage < kStages) return Send(event);
    Worker& worker = workers_[event.worker];
    --worker.in_flight;
    ++worker.done;
    worker.control.Note(now_us_, now_us_ - event.started_us, event.at_servers_us);
    worker.limits.push_back(worker.control.limit());
    Fill(event.worker);
  }

  std::vector<Worker> workers_;
  int64_t service_us_;
  int64_t now_us_ = 1;
  std::multimap<int64_t, Event> events_;
  int64_t server_free_us_ = 0;
  int64_t busy_us_ = 0;
  int64_t busy_before_us_ = 0;
  int64_t since_us_ = 0;
};

Network OneWorker(int64_t latency_us, int64_t service_us, int64_t link_us = 0, uint32_t fixed = 0) {
  return {{{InFlightControl(fixed), latency_us, link_us}}, service_us};
}

constexpr int64_t kSecond = 1'000'000;

TEST_CASE("in flight: without latency two batches are enough, and it stays at them") {
  for (const int64_t latency_us : {0, 100, 1000}) {
    CAPTURE(latency_us);
    Network network = OneWorker(latency_us, 1000);
    network.RunUntil(60 * kSecond);
    const auto& limits = network.worker(0).limits;
    CHECK(limits.size() > 10000);
    CHECK(*std::max_element(limits.begin(), limits.end()) == 2);
    CHECK(network.Busy() > 0.99);
  }
}

TEST_CASE("in flight: a long round trip has it grow until the server is busy") {
  for (const int64_t latency_us : {3000, 5000, 10000}) {
    CAPTURE(latency_us);
    Network network = OneWorker(latency_us, 1000);
    network.RunUntil(30 * kSecond);
    (void)network.Busy();
    network.RunUntil(60 * kSecond);
    CHECK(network.Busy() > 0.75);
    CHECK(network.limit() > 2);
    // No more than half again what fills the round trip.
    CHECK(network.limit() <= 1.5 * static_cast<double>(latency_us + 1000) / 1000 + 1);
  }
  Network far = OneWorker(100000, 1000);
  far.RunUntil(200 * kSecond);
  CHECK(far.limit() == InFlightControl::kMost);
}

TEST_CASE("in flight: over a full link raises are taken back, and tried less and less often") {
  // The link carries a request in 2 ms, the server needs 50 us: the latency is the link's.
  Network network = OneWorker(200, 50, 2000);
  network.RunUntil(600 * kSecond);
  const auto& limits = network.worker(0).limits;
  CHECK(limits.size() > 90000);
  std::vector<size_t> raises;
  size_t raised = 0;
  for (size_t i = 1; i < limits.size(); ++i) {
    if (limits[i] > limits[i - 1]) raises.push_back(i);
    raised += limits[i] > 2;
    CHECK(limits[i] <= 3);
  }
  REQUIRE(raises.size() >= 6);
  for (size_t i = 2; i < 5; ++i) {
    const double before = static_cast<double>(raises[i - 1] - raises[i - 2]);
    const double after = static_cast<double>(raises[i] - raises[i - 1]);
    CAPTURE(i);
    CHECK(after > 1.4 * before);  // pauses of 4, 8, 16 ... rounds, and the trial
    CHECK(after < 2.2 * before);
  }
  CHECK(static_cast<double>(raised) < 0.05 * static_cast<double>(limits.size()));
}

TEST_CASE("in flight: workers that share a busy server do not grow") {
  for (const size_t workers : {2, 4, 8}) {
    CAPTURE(workers);
    std::vector<Network::Worker> all(workers, {InFlightControl(0), 1000, 0});
    Network network(all, 1000);
    network.RunUntil(120 * kSecond);
    CHECK(network.Busy() > 0.99);
    for (size_t w = 0; w < workers; ++w) {
      CAPTURE(w);
      CHECK(network.limit(w) == 2);
      CHECK(network.worker(w).done > 0.9 * 40000 / static_cast<double>(workers));
    }
  }
}

TEST_CASE("in flight: workers far from a server fill it together, not each for itself") {
  // One alone would need 11; four of them 3 each.
  std::vector<Network::Worker> all(4, {InFlightControl(0), 10000, 0});
  Network network(all, 1000);
  network.RunUntil(60 * kSecond);
  (void)network.Busy();
  network.RunUntil(120 * kSecond);
  CHECK(network.Busy() > 0.75);
  uint32_t sum = 0;
  for (size_t w = 0; w < 4; ++w) sum += network.limit(w);
  CHECK(sum <= 4 * 6);
}

TEST_CASE("in flight: a number that was configured stays, whatever the link") {
  for (const uint32_t fixed : {1u, 5u, 40u}) {
    Network network = OneWorker(50000, 1000, 0, fixed);
    network.RunUntil(30 * kSecond);
    const auto& limits = network.worker(0).limits;
    REQUIRE_FALSE(limits.empty());
    CHECK(*std::min_element(limits.begin(), limits.end()) == fixed);
    CHECK(*std::max_element(limits.begin(), limits.end()) == fixed);
  }
}

TEST_CASE("in flight: when the round trip is short again it comes down, and up with the next one") {
  Network network = OneWorker(10000, 1000);
  network.RunUntil(30 * kSecond);
  CHECK(network.limit() >= 8);
  network.SetLatency(100);
  network.RunUntil(40 * kSecond);
  CHECK(network.limit() == 2);
  CHECK(network.Busy() > 0.5);
  network.SetLatency(10000);
  network.RunUntil(80 * kSecond);
  CHECK(network.limit() >= 8);
}

TEST_CASE("in flight: while another limit holds nothing is measured, and a raise is undone") {
  constexpr int64_t kAgain = 1'000'000;  // after batches with the other limit
  InFlightControl control(0);
  int64_t now_us = 1;
  const auto note = [&](int64_t batches) {  // each 10 ms long, 1 ms of it at servers
    for (int64_t n = 0; n < batches; ++n) control.Note(now_us += 5000, 10000, 1000);
  };
  note(9);  // the first one begins the round
  CHECK(control.limit() == 3);
  note(3 + 8);  // of the trial's round one is missing
  control.Interrupt();
  CHECK(control.limit() == 2);
  now_us += kAgain;
  note(8);
  CHECK(control.limit() == 2);
  note(1);  // the round has the time since the interruption, and the raise is tried again
  CHECK(control.limit() == 3);
  InFlightControl fixed(5);
  fixed.Interrupt();
  CHECK(fixed.limit() == 5);
}

TEST_CASE("in flight: it never leaves its bounds, whatever it is told") {
  InFlightControl control(0);
  for (int64_t n = 0; n < 20000; ++n) {
    const int64_t kind = n / 1000 % 4;
    control.Note(n * (kind == 3 ? 0 : 100), kind * 5000, kind == 2 ? 10000 : 0);
    REQUIRE(control.limit() >= InFlightControl::kFewest);
    REQUIRE(control.limit() <= InFlightControl::kMost);
  }
}

}  // namespace
}  // namespace dslide::in_flight_control_test
