#include "scheduler/members/admission.h"

#include <doctest/doctest.h>

namespace dslide::admission_test {
namespace {

Message JoinOf(uint64_t server, const std::string& address, uint64_t sequence = 1) {
  Join join;
  join.role = Role::kServer;
  join.address = address;
  return {{{}, {server}, sequence, 0, 0}, join};
}

TEST_CASE("an applicant is probed once a second until it answers itself") {
  Admission admission(1000);
  admission.Ask("a", JoinOf(7, "tcp://h:1"), 500);
  REQUIRE(admission.Awaits({7}));
  auto probes = admission.DueProbes(500);
  REQUIRE(probes.size() == 1);
  CHECK(probes[0].server == Incarnation{7});
  CHECK(probes[0].address == "tcp://h:1");
  CHECK(admission.DueProbes(1499).empty());
  CHECK(admission.DueProbes(1500).size() == 1);

  CHECK_FALSE(admission.Answered({8}, {8}));  // nobody asked
  CHECK_FALSE(admission.Answered({7}, {8}));
  CHECK_FALSE(admission.Answered({7}, {}));
  admission.Ask("b", JoinOf(7, "tcp://h:1", 5), 1600);  // its answer is late
  CHECK(admission.DueProbes(1600).empty());
  const auto reached = admission.Answered({7}, {7});
  REQUIRE(reached);
  CHECK(reached->peer == "b");
  CHECK(reached->join.envelope.sequence == 5);
  CHECK_FALSE(admission.Awaits({7}));
  CHECK(admission.DueProbes(9000).empty());
}

TEST_CASE("an applicant that withdraws by its connection is never refused") {
  Admission admission(1000);
  admission.Ask("a", JoinOf(7, "tcp://h:1"), 500);
  CHECK_FALSE(admission.Withdraw("b", {7}));
  CHECK_FALSE(admission.Withdraw("a", {8}));
  REQUIRE(admission.Withdraw("a", {7}));
  CHECK_FALSE(admission.Awaits({7}));
  CHECK(admission.Expire(100'000).empty());
}

TEST_CASE("an applicant that is not reached in time is refused with its address") {
  Admission admission(1000);
  admission.Ask("a", JoinOf(7, "tcp://h:1"), 0);
  admission.Ask("b", JoinOf(8, "tcp://h:2"), 100);
  admission.Ask("a", JoinOf(7, "tcp://h:1"), 2000);  // asking again gains no time
  CHECK_FALSE(admission.Answered({8}, {7}));
  CHECK(admission.Expire(9999).empty());
  auto refused = admission.Expire(10000);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].applicant.peer == "a");
  CHECK(refused[0].why ==
        "nobody answered for 10 s at the advertised address tcp://h:1; set --advertise to one at "
        "which the scheduler, the workers and the other servers reach this server");
  CHECK_FALSE(admission.Awaits({7}));
  refused = admission.Expire(10100);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].why.starts_with("another process answers at the advertised address tcp://h:2"));
  CHECK(Admission(10).Expire(99999).empty());
}

TEST_CASE("patience follows the heartbeats, and is never too short for a busy machine") {
  Admission quick(20);
  quick.Ask("a", JoinOf(7, "tcp://h:1"), 0);
  CHECK(quick.Expire(2999).empty());
  CHECK(quick.Expire(3000).size() == 1);
}

TEST_CASE("an address whose server was left out is barred for a minute, then for two") {
  Admission admission(1000);
  CHECK(admission.WhyBarred("tcp://h:1", 0).empty());
  admission.Bar("tcp://h:1", "silent", 0);
  CHECK(admission.WhyBarred("tcp://h:1", 59999) == "silent");
  CHECK(admission.WhyBarred("tcp://h:2", 59999).empty());
  CHECK(admission.WhyBarred("tcp://h:1", 60000).empty());
  admission.Bar("tcp://h:1", "slow", 60000);
  CHECK(admission.WhyBarred("tcp://h:1", 179999) == "slow");
  CHECK(admission.WhyBarred("tcp://h:1", 180000).empty());
  for (int i = 0; i < 100; ++i) admission.Bar("tcp://h:1", "silent", 0);
  CHECK(admission.WhyBarred("tcp://h:1", 64 * 60000).empty());  // about an hour at most
}

TEST_CASE("strangers make the scheduler dial a few addresses at once, not thousands") {
  Admission admission(1000);
  uint64_t server = 0;
  const auto ask = [&](const std::string& from, int64_t now_ms) {
    ++server;
    return admission.Ask(from, JoinOf(server, "tcp://h:" + std::to_string(server)), now_ms);
  };
  for (size_t i = 0; i < Admission::kMostOfOne; ++i) CHECK(ask("one", 0));
  CHECK_FALSE(ask("one", 0));
  CHECK(admission.Ask("one", JoinOf(1, "tcp://h:1", 2), 0));  // it has a place
  for (int peer = 0; peer < 1000; ++peer) (void)ask("peer-" + std::to_string(peer), 1);
  CHECK(admission.DueProbes(5000).size() == Admission::kMostApplicants);
  // Others have one each by now, so the connection with the most has lost its places.
  CHECK_FALSE(ask("another", 2));
  CHECK_FALSE(admission.Expire(20'000).empty());
  CHECK(ask("another", 20'000));
}

TEST_CASE("a server that is lost twice before it has proved itself is barred") {
  Admission admission(1000);
  admission.Strike("tcp://h:1", "lost", 0);
  CHECK(admission.WhyBarred("tcp://h:1", 0).empty());
  admission.Strike("tcp://h:1", "lost", 700'000);  // long after
  CHECK(admission.WhyBarred("tcp://h:1", 700'000).empty());
  admission.Strike("tcp://h:1", "lost", 800'000);
  CHECK(admission.WhyBarred("tcp://h:1", 859'999) == "lost");
  CHECK(admission.WhyBarred("tcp://h:1", 860'000).empty());
  CHECK(admission.WhyBarred("", 0).empty());
}

TEST_CASE("what is barred takes so much memory, and no more") {
  Admission admission(1000);
  admission.Bar("tcp://h:1", "silent", 1'000'000);
  for (int i = 0; i < 5000; ++i) admission.Strike("tcp://x:" + std::to_string(i), "lost", 0);
  CHECK(admission.WhyBarred("tcp://h:1", 1'000'000) == "silent");
}

}  // namespace
}  // namespace dslide::admission_test
