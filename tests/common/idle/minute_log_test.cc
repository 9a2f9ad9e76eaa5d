#include "common/idle/minute_log.h"

#include <doctest/doctest.h>

namespace dslide::minute_log_test {
namespace {

constexpr int64_t kMinute = MinuteLog::kEveryMs;

TEST_CASE("a line a minute: the newest of those that came too early follows") {
  MinuteLog log;
  CHECK(log.Note("pauses", 1000) == "pauses");
  CHECK(log.Note("goes on", 2000) == "");
  CHECK(log.Note("pauses again", 3000) == "");
  CHECK(log.Due(999 + kMinute) == "");
  CHECK(log.Due(1000 + kMinute) == "pauses again (58 s ago)");
  CHECK(log.Due(1000 + 2 * kMinute) == "");
  CHECK(log.Note("goes on", 1000 + 3 * kMinute) == "goes on");
}

TEST_CASE("the last line comes at the end, however early that is") {
  MinuteLog log;
  CHECK(log.Last(0) == "");
  CHECK(log.Note("pauses", 1000) == "pauses");
  CHECK(log.Note("the run is finished", 2000) == "");
  CHECK(log.Last(2000) == "the run is finished");
  CHECK(log.Last(3000) == "");
}

TEST_CASE("what was said last is not said again") {
  MinuteLog log;
  CHECK(log.Note("pauses", 0) == "pauses");
  CHECK(log.Note("goes on", 10) == "");
  CHECK(log.Note("pauses", 20) == "");  // as the reader knows
  CHECK(log.Due(2 * kMinute) == "");
  CHECK(log.Note("pauses", 3 * kMinute) == "");
}

}  // namespace
}  // namespace dslide::minute_log_test
