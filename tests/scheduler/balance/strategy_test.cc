#include "scheduler/balance/strategy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "scheduler/members/speed_meter.h"

namespace dslide::strategy_test {
namespace {

constexpr RunMeasure kRun{.unit_batches = 64, .batches_left = 1'000'000, .seconds_per_batch = 0.1};

WorkerMeasure Worker(std::string name, double batches_per_second) {
  return {.name = std::move(name),
          .batches_per_second = batches_per_second,
          .round_trip_us = 1000,
          .bits_per_second = 1'000'000'000,
          .bytes_per_batch = 100'000};
}

TEST_CASE("a lease is three seconds of work, within a unit") {
  Strategy strategy;
  const auto decided = strategy.Decide(
      {Worker("new", 0), Worker("slow", 0.01), Worker("b", 4), Worker("quick", 1000)}, {{"server"}},
      kRun);
  CHECK(decided.workers[0].lease_batches == 2);
  CHECK(decided.workers[1].lease_batches == 1);
  CHECK(decided.workers[2].lease_batches == 12);
  CHECK(decided.workers[3].lease_batches == 64);
}

TEST_CASE("the last leases of a pass are half of what a worker would do of the rest") {
  Strategy strategy;
  const std::vector<WorkerMeasure> workers = {Worker("a", 1), Worker("b", 9)};
  RunMeasure run = kRun;
  run.batches_left = 40;
  const auto decided = strategy.Decide(workers, {{"server"}}, run);
  CHECK(decided.workers[0].lease_batches == 2);
  CHECK(decided.workers[1].lease_batches == 18);
  run.batches_left = 3;
  const auto last = strategy.Decide(workers, {{"server"}}, run);
  CHECK(last.workers[0].lease_batches == 1);
  CHECK(last.workers[1].lease_batches == 2);
  CHECK_FALSE(last.workers[1].log);  // the end of a pass is no news
}

TEST_CASE("in flight is what the worker's part of the servers' rate needs over its latency") {
  Strategy strategy;
  WorkerMeasure far = Worker("far", 5), near = Worker("near", 5), unknown = Worker("unknown", 5);
  far.round_trip_us = 500'000;
  unknown.round_trip_us = 0;
  auto decided = strategy.Decide({far, near}, {{"server"}}, kRun);
  // 5 batches/s each; 2 s of round trips and 0.2 s at the server, or 0.2 s.
  CHECK(decided.workers[0].in_flight_cap == 18);
  CHECK(decided.workers[1].in_flight_cap == 3);
  // A link of one batch a second: the rest of the rate is the other's.
  far.bits_per_second = 800'000;
  decided = strategy.Decide({far, near}, {{"server"}}, kRun);
  CHECK(decided.workers[0].in_flight_cap == 6);  // 1 batch/s for 3.2 s
  CHECK(decided.workers[1].in_flight_cap == 4);  // 9 batches/s for 0.2 s
  // Two servers: each of the links has half of the bytes.
  decided = strategy.Decide({far, near}, {{"one"}, {"two"}, {"gone", 1, true}}, kRun);
  CHECK(decided.workers[0].in_flight_cap == 9);  // 2 batches/s for 2.7 s
  // What is not known is not capped.
  CHECK(strategy.Decide({unknown}, {{"server"}}, kRun).workers[0].in_flight_cap == 0);
  CHECK(strategy.Decide({near}, {{"server"}}, {.batches_left = 9}).workers[0].in_flight_cap == 0);
}

TEST_CASE("many workers do not flood the servers, and everybody has something to do") {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<WorkerMeasure> workers;
    double latency_s = 0;
    const size_t count = 1 + random.Below(200);
    for (size_t i = 0; i < count; ++i) {
      WorkerMeasure w =
          Worker("w" + std::to_string(i), random.Below(3) == 0 ? 0 : random.Uniform());
      w.round_trip_us = static_cast<uint32_t>(random.Below(200'000));
      w.bits_per_second = random.Below(4) == 0 ? 0 : 1'000'000 + random.Below(100'000'000);
      w.cores = static_cast<uint32_t>(random.Below(64));
      w.lease_size = static_cast<uint32_t>(random.Below(3));
      w.lease_age_s = 10 * random.Uniform();
      latency_s = std::max(latency_s, 4 * w.round_trip_us / 1e6 + 0.8 + 0.2);
      workers.push_back(std::move(w));
    }
    RunMeasure run = kRun;
    run.batches_left = random.Below(1000);
    Strategy strategy;
    const auto decided = strategy.Decide(workers, {{"server"}}, run);
    REQUIRE(decided.workers.size() == count);
    double capped = 0;
    for (size_t i = 0; i < count; ++i) {
      const WorkerDecision& w = decided.workers[i];
      REQUIRE(w.name == workers[i].name);
      REQUIRE(w.lease_batches >= 1);
      REQUIRE(w.lease_batches <= 64);
      REQUIRE((w.in_flight_cap >= Strategy::kFewestInFlight || workers[i].round_trip_us == 0));
      REQUIRE(w.log);
      capped += w.in_flight_cap;
    }
    // Ten batches a second, each in flight for so long, and the fewest that everybody has.
    REQUIRE(capped <=
            1.5 * 10 * latency_s + Strategy::kFewestInFlight * static_cast<double>(count));
  }
}

TEST_CASE("servers get shares by their capacity") {
  Strategy strategy;
  const auto decided =
      strategy.Decide({}, {{"server", 3e6}, {"server-2", 1e6}, {"server-3", 9e6, true}}, kRun);
  CHECK(decided.servers[0].share == doctest::Approx(0.75));
  CHECK(decided.servers[1].share == doctest::Approx(0.25));
  CHECK(decided.servers[2].share == 0);
  CHECK(decided.servers[0].reason == "server: gets 75 % of the load, its share of the capacity");
  CHECK(decided.servers[2].reason == "server-3: leaving, its slots go to the others");
}

TEST_CASE("reasons have the numbers, and only news are logged") {
  Strategy strategy;
  WorkerMeasure w = Worker("worker-2", 1.1);
  w.round_trip_us = 80'000;
  w.bits_per_second = 123'000'000;
  auto decided = strategy.Decide({w}, {{"server"}}, kRun);
  CHECK(decided.workers[0].log);
  CHECK(decided.workers[0].reason ==
        "worker-2: 3 batches per lease (1.1 batches/s), at most 9 in flight (round trip 80 ms, "
        "123 Mbit/s)");
  w.batches_per_second = 1.4;  // 4 a lease: just one more
  decided = strategy.Decide({w}, {{"server"}}, kRun);
  CHECK_FALSE(decided.workers[0].log);
  CHECK_FALSE(decided.servers[0].log);
  w.batches_per_second = 2;
  decided = strategy.Decide({w}, {{"server"}, {"server-2"}}, kRun);
  CHECK(decided.workers[0].log);
  CHECK(decided.servers[0].log);  // its share is halved
  CHECK(decided.servers[1].log);
  // Who has gone is new when it comes back.
  CHECK(strategy.Decide({}, {}, kRun).workers.empty());
  decided = strategy.Decide({w, Worker("first", 0)}, {{"server"}}, kRun);
  CHECK(decided.workers[0].log);
  CHECK(decided.servers[0].log);
  CHECK(decided.workers[1].reason.starts_with(
      "first: 2 batches per lease (speed not known yet), at most "));
}

TEST_CASE("stragglers are named: slow cores, and leases that take too long") {
  Strategy strategy;
  std::vector<WorkerMeasure> workers = {Worker("a", 3), Worker("b", 3), Worker("c", 3),
                                        Worker("d", 0)};
  workers[2].cores = 4;
  auto decided = strategy.Decide(workers, {{"server"}}, kRun);
  CHECK_FALSE(decided.workers[0].straggler);
  CHECK(decided.workers[2].straggler);
  CHECK(decided.workers[2].reason.ends_with(
      "; holds others up: 0.75 batches/s per core where the median is 3"));
  CHECK_FALSE(decided.workers[3].straggler);
  workers[0].lease_size = 9;
  workers[0].lease_age_s = 8;
  workers[2].cores = 1;
  workers[3].lease_size = 3;  // by the median it should take a second
  workers[3].lease_age_s = 4;
  decided = strategy.Decide(workers, {{"server"}}, kRun);
  CHECK_FALSE(decided.workers[0].straggler);
  CHECK_FALSE(decided.workers[2].straggler);
  CHECK(decided.workers[2].log);
  CHECK(decided.workers[3].straggler);
  workers[0].lease_age_s = 10;
  decided = strategy.Decide(workers, {{"server"}}, kRun);
  CHECK(decided.workers[0].reason.ends_with(
      "; holds others up: 9 batches leased 10 s ago, expected to take 3 s"));
  CHECK(decided.workers[0].log);
}

TEST_CASE("a speed is right from the beginning, and follows within some ten seconds") {
  SpeedMeter meter(0);
  CHECK(meter.Rate(0) == 0);
  int64_t now = 0;
  for (int i = 0; i < 4; ++i) meter.Add(1, now += 500);
  CHECK(meter.Rate(now) == doctest::Approx(2).epsilon(0.15));
  for (int i = 0; i < 100; ++i) meter.Add(1, now += 500);
  CHECK(meter.Rate(now) == doctest::Approx(2).epsilon(0.05));
  CHECK(meter.Rate(now + 10'000) == doctest::Approx(2 * std::exp(-1)).epsilon(0.05));
  for (int i = 0; i < 300; ++i) meter.Add(1, now += 100);
  CHECK(meter.Rate(now) == doctest::Approx(10).epsilon(0.1));
}

}  // namespace
}  // namespace dslide::strategy_test
