#include "server/core/load_meter.h"

#include <doctest/doctest.h>

namespace dslide::load_meter_test {
namespace {

// An executor that worked on slot 3 for this many seconds.
JobReply PartOf(float work, double busy_seconds) {
  Measured part;
  part.load = {10, busy_seconds, {{.slot = {3}, .work = work}}};
  part.memory_bytes = 100;
  part.tables = TableFigures{{.largest = 9}, 0, 0};
  return part;
}

TEST_CASE("a load is told once, the other figures until the next measurement") {
  LoadMeter meter(0);
  meter.Begin(1000);
  const auto measuring = meter.Measure(6000);
  CHECK(measuring.tables);
  CHECK(meter.measures());
  meter.Take(measuring, {PartOf(50, 1)}, 6000);
  CHECK_FALSE(meter.measures());
  meter.CheckInvariants();
  Heartbeat beat = meter.TakeFigures();
  REQUIRE(beat.load);
  CHECK(beat.load->interval_ms == 5000);
  CHECK(beat.load->busy.at(0) == doctest::Approx(0.2));
  CHECK(beat.memory_used_bytes == 100);
  beat = meter.TakeFigures();
  CHECK_FALSE(beat.load);
  CHECK(beat.memory_used_bytes == 100);
}

TEST_CASE("the hash tables are read now and then, and stay as they were meanwhile") {
  LoadMeter meter(0);
  meter.Begin(0);
  meter.Take(meter.Measure(5000), {PartOf(1, 1)}, 5000);
  const auto measuring = meter.Measure(9999);
  CHECK_FALSE(measuring.tables);
  meter.Take(measuring, {PartOf(1, 1)}, 9999);
  CHECK(meter.TakeFigures().bucket_largest == 9);
  CHECK(meter.Measure(10'000).tables);
}

TEST_CASE("a slot's work is smoothed over measurements") {
  LoadMeter meter(0);
  meter.Begin(0);
  meter.Take(meter.Measure(1000), {PartOf(100, 1)}, 1000);
  CHECK(meter.slot_work().at({3}) == doctest::Approx(10));
  meter.Take(meter.Measure(2000), {PartOf(200, 1)}, 2000);
  CHECK(meter.slot_work().at({3}) == doctest::Approx(12));
  meter.Forget();
  CHECK(meter.slot_work().empty());
  CHECK_FALSE(meter.TakeFigures().load);
}

}  // namespace
}  // namespace dslide::load_meter_test
