#include "common/log/line_limit.h"

#include <doctest/doctest.h>

namespace dslide::line_limit_test {
namespace {

constexpr int64_t kMinute = 60'000;
constexpr EventKind kOne = {"one", ""};
constexpr EventKind kOther = {"other", ""};

Event Line(const char* text) { return {kOne, text}; }

std::string TextOf(const std::optional<Event>& event) { return event ? event->text : ""; }

TEST_CASE("line limit: some lines at once, then one a second, and the number of those suppressed") {
  LineLimit limit(2);
  CHECK(TextOf(limit.Admit(Line("a"), 5000)) == "a");
  CHECK(TextOf(limit.Admit(Line("b"), 5000)) == "b");
  CHECK_FALSE(limit.Admit(Line("c"), 5000));
  CHECK_FALSE(limit.Admit(Line("d"), 5900));
  CHECK(TextOf(limit.Admit(Line("e"), 6000)) == "e (and 2 before)");
  CHECK_FALSE(limit.Admit(Line("f"), 6999));
  CHECK(TextOf(limit.Admit(Line("g"), 100'000)) == "g (and 1 before)");
  CHECK(TextOf(limit.Admit(Line("h"), 100'000)) == "h");
  CHECK_FALSE(limit.Admit(Line("i"), 100'000));
}

TEST_CASE("line limit: a whole interval is between two lines, whenever the first one comes") {
  LineLimit limit;
  CHECK(TextOf(limit.Admit(Line("a"), 5900)) == "a");
  CHECK_FALSE(limit.Admit(Line("a"), 6899));
  CHECK(TextOf(limit.Admit(Line("a"), 6900)) == "a (and 1 before)");
  CHECK(TextOf(limit.Admit(Line("a"), 9999)) == "a");
  CHECK_FALSE(limit.Admit(Line("a"), 10'998));
}

TEST_CASE("line limit: the newest suppressed line follows when it is due") {
  LineLimit limit(1, kMinute);
  CHECK_FALSE(limit.Due(0));
  CHECK(TextOf(limit.AdmitState(Line("pauses"), 1000)) == "pauses");
  CHECK_FALSE(limit.Due(1000));
  CHECK_FALSE(limit.AdmitState(Line("goes on"), 2000));
  CHECK_FALSE(limit.AdmitState(Line("pauses again"), 3000));
  CHECK_FALSE(limit.Due(999 + kMinute));
  CHECK(TextOf(limit.Due(1000 + kMinute)) == "pauses again (and 1 before, 58 s ago)");
  CHECK_FALSE(limit.AdmitState(Line("waits"), 11'000 + kMinute));
  CHECK_FALSE(limit.Due(999 + 2 * kMinute));
  CHECK(TextOf(limit.Due(1000 + 2 * kMinute)) == "waits (50 s ago)");
  CHECK_FALSE(limit.Due(1000 + 3 * kMinute));
  CHECK(TextOf(limit.AdmitState(Line("goes on"), 1000 + 4 * kMinute)) == "goes on");
}

TEST_CASE("line limit: a repeated line comes at once, then once an interval with their number") {
  LineLimit limit(1, kMinute);
  CHECK(TextOf(limit.Admit(Line("one"), 5)) == "one");
  CHECK_FALSE(limit.Due(6));  // nothing more
  CHECK_FALSE(limit.Admit(Line("two"), 6));
  CHECK_FALSE(limit.Admit(Line("three"), 7));
  CHECK_FALSE(limit.Due(4 + kMinute));
  CHECK(TextOf(limit.Due(5 + kMinute)) == "three (and 1 before, 59 s ago)");
  CHECK_FALSE(limit.Due(6 + kMinute));
  CHECK_FALSE(limit.Admit(Line("four"), 6 + kMinute));
  CHECK(TextOf(limit.Due(5 + 2 * kMinute)) == "four (59 s ago)");
  CHECK(TextOf(limit.Admit(Line("five"), 5 + 3 * kMinute)) == "five");
}

TEST_CASE("line limit: the last line comes at the end, however early that is") {
  LineLimit limit(1, kMinute);
  CHECK_FALSE(limit.Flush(0));
  CHECK(TextOf(limit.AdmitState(Line("pauses"), 1000)) == "pauses");
  CHECK_FALSE(limit.AdmitState(Line("the run is finished"), 2000));
  CHECK(TextOf(limit.Flush(2000)) == "the run is finished");
  CHECK_FALSE(limit.Flush(3000));
}

TEST_CASE("line limit: the state that was logged last is not logged again") {
  LineLimit limit(1, kMinute);
  CHECK(TextOf(limit.AdmitState(Line("pauses"), 0)) == "pauses");
  CHECK_FALSE(limit.AdmitState(Line("goes on"), 10));
  CHECK_FALSE(limit.AdmitState(Line("pauses"), 20));  // as the reader knows
  CHECK_FALSE(limit.Due(2 * kMinute));
  CHECK_FALSE(limit.AdmitState(Line("pauses"), 3 * kMinute));
  CHECK(TextOf(limit.AdmitState(Line("goes on"), 3 * kMinute)) == "goes on");
  CHECK(TextOf(limit.Admit(Line("goes on"), 4 * kMinute)) == "goes on");
}

TEST_CASE("event limit: the kinds of events are limited apart") {
  EventLimit limit;
  CHECK(limit.Admit({kOne, "a"}, 0));
  CHECK_FALSE(limit.Admit({kOne, "b"}, 0));
  const auto other = limit.Admit({kOther, "c", {{"n", 3}}}, 0);
  REQUIRE(other);
  CHECK(other->Is(kOther));
  const auto later = limit.Admit({kOne, "d", {{"n", 4}}}, 1000);
  REQUIRE(later);
  CHECK(later->text == "d (and 1 before)");
  CHECK(later->fields == std::vector<EventField>{{"n", 4}});
}

}  // namespace
}  // namespace dslide::line_limit_test
