#include "common/run/scheduler_link.h"

#include <doctest/doctest.h>

namespace dslide::scheduler_link_test {
namespace {

TEST_CASE("messages are numbered from 1 and say who sends them") {
  SchedulerLink link({5});
  CHECK(link.last_sequence() == 0);
  link.Joined({77});
  CHECK(link.Next(3) == Envelope{{77}, {5}, 1, 0, 3});
  CHECK(link.Next(3, 9) == Envelope{{77}, {5}, 2, 9, 3});
  CHECK(link.Again(1, 4) == Envelope{{77}, {5}, 1, 0, 4});
  CHECK(link.last_sequence() == 2);
}

TEST_CASE("a new life is another incarnation in no run, answers to the old one are known") {
  SchedulerLink link({5});
  link.Joined({77});
  (void)link.Next(0);
  (void)link.Next(0);
  link.BeginNewLife();
  CHECK(link.incarnation() != Incarnation{5});
  CHECK(link.run() == RunId());
  const uint64_t first = link.Next(0).sequence;
  CHECK(first == 3);
  const auto answer = [](uint64_t reply_to) { return Envelope{{77}, {9}, 1, reply_to, 0}; };
  CHECK(link.AnswersEarlierLife(answer(2)));
  CHECK_FALSE(link.AnswersEarlierLife(answer(first)));
  CHECK_FALSE(link.AnswersEarlierLife(answer(0)));  // no answer at all
}

TEST_CASE("a member joins again after a while, sooner after a refusal") {
  SchedulerLink link({5});
  link.JoinSent(10'000);
  CHECK_FALSE(link.JoinDue(11'999));
  CHECK(link.JoinDue(12'000));
  CHECK_FALSE(link.MayJoinAgain(10'199));
  CHECK(link.MayJoinAgain(10'200));
  link.JoinSoon(20'000);
  CHECK_FALSE(link.JoinDue(20'199));
  CHECK(link.JoinDue(20'200));
}

TEST_CASE("silence counts from the first Join, then from what was heard last") {
  SchedulerLink link({5});
  link.JoinSent(1000);
  link.JoinSent(3000);
  CHECK(link.heard_ms() == 1000);
  link.Heard(5000);
  link.JoinSent(7000);
  CHECK(link.heard_ms() == 5000);
  Config config;
  config.cluster.scheduler_silence_s = 7;
  CHECK(SchedulerLink::PatienceMs(&config) == 7000);
  CHECK(SchedulerLink::PatienceMs(nullptr) == kJoinPatienceMs);
}

TEST_CASE("heartbeats are due by their interval") {
  SchedulerLink link({5});
  link.HeartbeatSent(1000);
  CHECK_FALSE(link.HeartbeatDue(1499, 500));
  CHECK(link.HeartbeatDue(1500, 500));
}

}  // namespace
}  // namespace dslide::scheduler_link_test
