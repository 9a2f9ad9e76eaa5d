#include "scheduler/members/offences.h"

#include <doctest/doctest.h>

namespace dslide::offences_test {
namespace {

constexpr Incarnation kMember{uint64_t{7} << 32 | 1}, kNextLife{uint64_t{7} << 32 | 2};
constexpr Incarnation kOther{uint64_t{8} << 32 | 1};
constexpr Incarnation kServer{uint64_t{20} << 32 | 1}, kServerOfOtherKey{uint64_t{21} << 32 | 1};
constexpr Incarnation kServerOfSameKey{uint64_t{20} << 32 | 2};

// By the scheduler's own sight. True: the member is excluded.
bool Seen(Offences* offences, Incarnation member, int64_t now_ms) {
  return offences->Note(member, Offences::Accusers(), now_ms).has_value();
}

TEST_CASE("offences: the third one is too many, also in another life of the key") {
  Offences offences;
  CHECK_FALSE(Seen(&offences, kMember, 0));
  CHECK_FALSE(Seen(&offences, kOther, 1));
  CHECK_FALSE(Seen(&offences, kNextLife, 2));
  CHECK(Seen(&offences, kNextLife, 3));
  CHECK(offences.total() == 4);
  // Its operator has let it in again.
  CHECK_FALSE(Seen(&offences, kMember, 4));
}

TEST_CASE("offences: those of long ago do not count") {
  Offences offences;
  CHECK_FALSE(Seen(&offences, kMember, 0));
  CHECK_FALSE(Seen(&offences, kMember, 10));
  CHECK_FALSE(Seen(&offences, kMember, Offences::kWithinMs + 1));
  CHECK(Seen(&offences, kMember, Offences::kWithinMs + 10));
}

TEST_CASE("offences: what may be the fault of others is shown, and does not count") {
  Offences offences;
  for (int n = 0; n < 10; ++n) CHECK_FALSE(offences.Note(kMember, std::nullopt, 0));
  CHECK(offences.total() == 10);
  CHECK_FALSE(Seen(&offences, kMember, 1));
}

TEST_CASE("offences: strangers without number are bounded, and do not wipe out a liar's") {
  Offences offences;
  const Incarnation liar{~uint64_t{0}};
  CHECK_FALSE(Seen(&offences, liar, 0));
  for (uint64_t n = 0; n < 10'000; ++n) CHECK_FALSE(Seen(&offences, {n << 32}, 1));
  CHECK_FALSE(Seen(&offences, liar, 2));
  CHECK(Seen(&offences, liar, 3));
}

TEST_CASE("offences: a complaint is evidence when servers of two keys make it together") {
  Offences offences;
  const Offences::Accusers both = {20, 21};
  CHECK(offences.Complain(kServer, kMember, 0).empty());
  CHECK(offences.Complain(kServer, kMember, 1).empty());
  CHECK(offences.Complain(kServerOfSameKey, kMember, 2).empty());
  CHECK(offences.Complain(kServerOfOtherKey, kOther, 3).empty());
  CHECK(offences.Complain(kServerOfOtherKey, kNextLife, 4) == both);
  // Both have to complain again for another offence.
  CHECK(offences.Complain(kServer, kMember, 5).empty());
  CHECK(offences.Complain(kServerOfOtherKey, kMember, 6 + Offences::kTogetherMs).empty());
  CHECK(offences.Complain(kServer, kMember, 7 + Offences::kTogetherMs) == both);
}

TEST_CASE("offences: a verdict names all servers that it rests on") {
  Offences offences;
  CHECK_FALSE(offences.Note(kMember, Offences::Accusers{20, 21}, 0));
  CHECK_FALSE(offences.Note(kMember, Offences::Accusers(), 1));
  CHECK(offences.Note(kMember, Offences::Accusers{21, 22}, 2) == Offences::Accusers{20, 21, 22});
}

TEST_CASE("offences: one server's complaints make one worker doubted for a minute, never several") {
  Offences offences;
  CHECK_FALSE(offences.IsDoubted(kMember, 0));
  (void)offences.Complain(kServer, kMember, 0);
  CHECK(offences.IsDoubted(kMember, Offences::kDoubtMs));
  CHECK(offences.IsDoubted(kNextLife, Offences::kDoubtMs));
  CHECK_FALSE(offences.IsDoubted(kOther, 0));
  CHECK_FALSE(offences.IsDoubted(kMember, Offences::kDoubtMs + 1));
  (void)offences.Complain(kServer, kOther, 1);
  CHECK_FALSE(offences.IsDoubted(kMember, 2));
  CHECK_FALSE(offences.IsDoubted(kOther, 2));
  (void)offences.Complain(kServerOfOtherKey, kMember, Offences::kTogetherMs + 3);
  CHECK(offences.IsDoubted(kMember, Offences::kTogetherMs + 3));
}

}  // namespace
}  // namespace dslide::offences_test
