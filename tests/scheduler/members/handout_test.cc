#include "scheduler/members/handout.h"

#include <doctest/doctest.h>

namespace dslide::handout_test {
namespace {

std::vector<Incarnation> Members(uint64_t first, uint64_t end) {
  std::vector<Incarnation> members;
  for (uint64_t m = first; m < end; ++m) members.push_back({m});
  return members;
}

TEST_CASE("handout: everybody has a turn once, a few at a time, in order") {
  Handout handout;
  CHECK(handout.done());
  CHECK(handout.Next().empty());
  constexpr uint64_t kMany = 2 * Handout::kAtOnce + 5;
  handout.Begin(Members(0, kMany));
  CHECK(handout.Next() == Members(0, Handout::kAtOnce));
  CHECK_FALSE(handout.Waits({0}));
  CHECK(handout.Waits({Handout::kAtOnce}));
  CHECK(handout.Next() == Members(Handout::kAtOnce, 2 * Handout::kAtOnce));
  CHECK_FALSE(handout.done());
  CHECK(handout.Next() == Members(2 * Handout::kAtOnce, kMany));
  CHECK(handout.done());
}

TEST_CASE("handout: a small run is served at once") {
  Handout handout;
  handout.Begin(Members(0, Handout::kAtOnce));
  CHECK(handout.Next().size() == Handout::kAtOnce);
  CHECK(handout.done());
}

TEST_CASE("handout: who has it already takes nobody's place") {
  Handout handout;
  handout.Begin(Members(0, Handout::kAtOnce + 1));
  handout.Skip({3});
  CHECK_FALSE(handout.Waits({3}));
  const auto next = handout.Next();
  CHECK(next.size() == Handout::kAtOnce);
  CHECK(next.back() == Incarnation{Handout::kAtOnce});
  CHECK(handout.done());
}

TEST_CASE("handout: what is new goes to all, also in the middle") {
  Handout handout;
  handout.Begin(Members(0, 3 * Handout::kAtOnce));
  (void)handout.Next();
  handout.Begin(Members(0, 2));
  CHECK(handout.Next() == Members(0, 2));
  CHECK(handout.done());
}

}  // namespace
}  // namespace dslide::handout_test
