#include "common/base/line_limit.h"

#include <doctest/doctest.h>

namespace dslide::line_limit_test {
namespace {

constexpr int64_t kMinute = 60'000;

TEST_CASE("line limit: some lines at once, then one a second, and the number of those suppressed") {
  LineLimit limit(2);
  CHECK(limit.Admit("a", 5000) == "a");
  CHECK(limit.Admit("b", 5000) == "b");
  CHECK_FALSE(limit.Admit("c", 5000));
  CHECK_FALSE(limit.Admit("d", 5900));
  CHECK(limit.Admit("e", 6000) == "e (and 2 before)");
  CHECK_FALSE(limit.Admit("f", 6999));
  CHECK(limit.Admit("g", 100'000) == "g (and 1 before)");
  CHECK(limit.Admit("h", 100'000) == "h");
  CHECK_FALSE(limit.Admit("i", 100'000));
}

TEST_CASE("line limit: a whole interval is between two lines, whenever the first one comes") {
  LineLimit limit;
  CHECK(limit.Admit("a", 5900) == "a");
  CHECK_FALSE(limit.Admit("a", 6899));
  CHECK(limit.Admit("a", 6900) == "a (and 1 before)");
  CHECK(limit.Admit("a", 9999) == "a");
  CHECK_FALSE(limit.Admit("a", 10'998));
}

TEST_CASE("line limit: the newest suppressed line follows when it is due") {
  LineLimit limit(1, kMinute);
  CHECK_FALSE(limit.Due(0));
  CHECK(limit.AdmitState("pauses", 1000) == "pauses");
  CHECK_FALSE(limit.Due(1000));
  CHECK_FALSE(limit.AdmitState("goes on", 2000));
  CHECK_FALSE(limit.AdmitState("pauses again", 3000));
  CHECK_FALSE(limit.Due(999 + kMinute));
  CHECK(limit.Due(1000 + kMinute) == "pauses again (and 1 before, 58 s ago)");
  CHECK_FALSE(limit.AdmitState("waits", 11'000 + kMinute));
  CHECK_FALSE(limit.Due(999 + 2 * kMinute));
  CHECK(limit.Due(1000 + 2 * kMinute) == "waits (50 s ago)");
  CHECK_FALSE(limit.Due(1000 + 3 * kMinute));
  CHECK(limit.AdmitState("goes on", 1000 + 4 * kMinute) == "goes on");
}

TEST_CASE("line limit: a repeated line comes at once, then once an interval with their number") {
  LineLimit limit(1, kMinute);
  CHECK(limit.Admit("one", 5) == "one");
  CHECK_FALSE(limit.Due(6));  // nothing more
  CHECK_FALSE(limit.Admit("two", 6));
  CHECK_FALSE(limit.Admit("three", 7));
  CHECK_FALSE(limit.Due(4 + kMinute));
  CHECK(limit.Due(5 + kMinute) == "three (and 1 before, 59 s ago)");
  CHECK_FALSE(limit.Due(6 + kMinute));
  CHECK_FALSE(limit.Admit("four", 6 + kMinute));
  CHECK(limit.Due(5 + 2 * kMinute) == "four (59 s ago)");
  CHECK(limit.Admit("five", 5 + 3 * kMinute) == "five");
}

TEST_CASE("line limit: the last line comes at the end, however early that is") {
  LineLimit limit(1, kMinute);
  CHECK_FALSE(limit.Flush(0));
  CHECK(limit.AdmitState("pauses", 1000) == "pauses");
  CHECK_FALSE(limit.AdmitState("the run is finished", 2000));
  CHECK(limit.Flush(2000) == "the run is finished");
  CHECK_FALSE(limit.Flush(3000));
}

TEST_CASE("line limit: the state that was logged last is not logged again") {
  LineLimit limit(1, kMinute);
  CHECK(limit.AdmitState("pauses", 0) == "pauses");
  CHECK_FALSE(limit.AdmitState("goes on", 10));
  CHECK_FALSE(limit.AdmitState("pauses", 20));  // as the reader knows
  CHECK_FALSE(limit.Due(2 * kMinute));
  CHECK_FALSE(limit.AdmitState("pauses", 3 * kMinute));
  CHECK(limit.AdmitState("goes on", 3 * kMinute) == "goes on");
  CHECK(limit.Admit("goes on", 4 * kMinute) == "goes on");
}

}  // namespace
}  // namespace dslide::line_limit_test
