#include "scheduler/members/offences.h"

#include <doctest/doctest.h>

namespace dslide::offences_test {
namespace {

constexpr Incarnation kMember{uint64_t{7} << 32 | 1}, kNextLife{uint64_t{7} << 32 | 2};
constexpr Incarnation kOther{uint64_t{8} << 32 | 1};

TEST_CASE("offences: the third one is too many, also in another life of the key") {
  Offences offences;
  CHECK_FALSE(offences.Note(kMember, "a", true, 0));
  CHECK_FALSE(offences.Note(kOther, "b", true, 1));
  CHECK_FALSE(offences.Note(kNextLife, "c", true, 2));
  CHECK(offences.Note(kNextLife, "d", true, 3));
  CHECK(offences.total() == 4);
  REQUIRE(offences.last().size() == 4);
  CHECK(offences.last()[3].reason == "d");
  CHECK(offences.last()[3].member == kNextLife);
  // Its operator has let it in again.
  CHECK_FALSE(offences.Note(kMember, "e", true, 4));
}

TEST_CASE("offences: those of long ago do not count") {
  Offences offences;
  CHECK_FALSE(offences.Note(kMember, "a", true, 0));
  CHECK_FALSE(offences.Note(kMember, "b", true, 10));
  CHECK_FALSE(offences.Note(kMember, "c", true, Offences::kWithinMs + 1));
  CHECK(offences.Note(kMember, "d", true, Offences::kWithinMs + 10));
}

TEST_CASE("offences: what may be the fault of others is shown, and does not count") {
  Offences offences;
  for (int n = 0; n < 10; ++n) CHECK_FALSE(offences.Note(kMember, "a", false, 0));
  CHECK(offences.total() == 10);
  CHECK_FALSE(offences.Note(kMember, "b", true, 1));
}

TEST_CASE("offences: strangers without number are bounded, and do not wipe out a liar's") {
  Offences offences;
  const Incarnation liar{~uint64_t{0}};
  CHECK_FALSE(offences.Note(liar, "a", true, 0));
  for (uint64_t n = 0; n < 10'000; ++n) CHECK_FALSE(offences.Note({n << 32}, "b", true, 1));
  CHECK_FALSE(offences.Note(liar, "c", true, 2));
  CHECK(offences.Note(liar, "d", true, 3));
}

TEST_CASE("offences: only the last ones are kept") {
  Offences offences;
  for (uint64_t n = 0; n < 3 * Offences::kKept; ++n) (void)offences.Note({n << 32}, "a", true, 0);
  CHECK(offences.total() == 3 * Offences::kKept);
  CHECK(offences.last().size() == Offences::kKept);
}

}  // namespace
}  // namespace dslide::offences_test
