// What the link meter makes of messages over links that are known.
#include "worker/link_meter.h"

#include <doctest/doctest.h>

#include "common/base/random.h"

namespace dslide::link_meter_test {
namespace {

struct KnownLink {
  double round_trip_us;
  double bits_per_second;
  double noise_us;  // at most, added to each message

  int64_t ElapsedUs(size_t bytes, Random* random) const {
    const double bits = 8.0 * static_cast<double>(bytes);
    return static_cast<int64_t>(round_trip_us + 1e6 * bits / bits_per_second +
                                noise_us * random->Uniform());
  }
};

// Messages of three kinds with random service times, `per_second` of each.
void Drive(const KnownLink& link, double seconds, int per_second, LinkMeter* meter) {
  constexpr size_t kBytes[] = {60000, 250000, 4000};
  Random random(5);
  const auto count = static_cast<int>(seconds * per_second);
  for (int i = 0; i < count; ++i) {
    const int64_t now_us = 1 + int64_t{1'000'000} * i / per_second;
    for (size_t kind = 0; kind < 3; ++kind) {
      const auto service_us = static_cast<int64_t>(random.Below(20000));
      // Sizes of a kind differ a little, as those of batches do.
      const size_t bytes = kBytes[kind] + random.Below(kBytes[kind] / 10);
      meter->Note(now_us, kind, link.ElapsedUs(bytes, &random) + service_us, service_us, bytes);
    }
  }
}

TEST_CASE("link meter: round trip and bandwidth are found within 20%") {
  for (const KnownLink& link : {KnownLink{100, 1e9, 0}, KnownLink{5000, 1e8, 300},
                                KnownLink{40000, 1e8, 30000}, KnownLink{20000, 2e7, 15000}}) {
    CAPTURE(link.round_trip_us);
    CAPTURE(link.bits_per_second);
    LinkMeter meter;
    Drive(link, 10, 50, &meter);
    CHECK(meter.windows() == 2);
    CHECK(meter.bits_per_second() > 0.8 * link.bits_per_second);
    CHECK(meter.bits_per_second() < 1.2 * link.bits_per_second);
    CHECK(meter.round_trip_us() > 0.8 * link.round_trip_us);
    CHECK(meter.round_trip_us() < 1.2 * link.round_trip_us);
  }
}

TEST_CASE("link meter: busy is the share of the bandwidth in use") {
  // Some 330 kB a round of three messages: 2.6 Mbit.
  for (const int per_second : {2, 10, 30}) {
    CAPTURE(per_second);
    LinkMeter meter;
    Drive({5000, 1e8, 300}, 10, per_second, &meter);
    const double used = 8.0 * 314000 * 1.05 * per_second / 1e8;
    CHECK(meter.busy() > 0.8 * used);
    CHECK(meter.busy() < 1.2 * used);
  }
}

TEST_CASE("link meter: nothing is known before the first window, nor from one kind of message") {
  LinkMeter meter;
  Drive({5000, 1e8, 0}, 3.9, 50, &meter);
  CHECK(meter.windows() == 0);
  CHECK(meter.bits_per_second() == 0);
  CHECK(meter.round_trip_us() == 0);
  CHECK(meter.busy() == 0);
  LinkMeter alike;
  for (int64_t i = 0; i < 1000; ++i) {
    alike.Note(1 + 20000 * i, 0, 5000, 1000, 100000);
    alike.Note(1 + 20000 * i, 1, 5100, 1000, 108000);  // too near the other one
  }
  CHECK(alike.windows() == 0);
  CHECK(alike.bits_per_second() == 0);
}

TEST_CASE("link meter: a link that changes is measured anew, window by window") {
  LinkMeter meter;
  Drive({5000, 1e8, 0}, 10, 50, &meter);
  const double before = meter.bits_per_second();
  CHECK(before > 0.8e8);
  // Ten times slower from now on; times go on behind those before.
  Random random(6);
  const KnownLink slow{50000, 1e7, 0};
  for (int64_t i = 0; i < 200; ++i) {
    const int64_t now_us = 10'000'001 + 50'000 * i;
    meter.Note(now_us, 0, slow.ElapsedUs(60000, &random), 0, 60000);
    meter.Note(now_us, 1, slow.ElapsedUs(250000, &random), 0, 250000);
  }
  CHECK(meter.windows() == 4);
  CHECK(meter.bits_per_second() > 0.8e7);
  CHECK(meter.bits_per_second() < 1.2e7);
  CHECK(meter.round_trip_us() > 40000);
  CHECK(meter.round_trip_us() < 60000);
}

TEST_CASE("link meter: times that make no sense give bounds, not nonsense") {
  LinkMeter meter;
  for (int64_t i = 0; i < 1000; ++i) {
    meter.Note(1 + 20000 * i, 0, 3000, 5000, 1000);    // the server says more than it took
    meter.Note(1 + 20000 * i, 1, 1000, 900, 500000);   // more bytes in less time
    meter.Note(1 + 20000 * i, 2, 9000, 1000, 100000);  // between the two: not looked at
  }
  CHECK(meter.windows() > 0);
  CHECK(meter.bits_per_second() > 0);
  CHECK(meter.bits_per_second() <= 1.01e11);
  CHECK(meter.round_trip_us() >= 1);
  CHECK(meter.busy() >= 0);
}

}  // namespace
}  // namespace dslide::link_meter_test
