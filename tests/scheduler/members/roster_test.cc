#include "scheduler/members/roster.h"

#include <doctest/doctest.h>

#include "scheduler/pass/training_stats.h"

namespace dslide::roster_test {
namespace {

Join Named(const std::string& name, Role role = Role::kWorker) {
  Join join;
  join.name = name;
  join.role = role;
  return join;
}

TEST_CASE("names are unique, by role if none is given") {
  Roster roster(100);
  CHECK(roster.Add(Named(""), {1}, "a", 0).name == "worker");
  CHECK(roster.Add(Named(""), {2}, "b", 0).name == "worker-2");
  CHECK(roster.Add(Named("", Role::kServer), {3}, "c", 0).name == "server");
  CHECK(roster.Add(Named("worker-2"), {4}, "d", 0).name == "worker-2-2");
  roster.Remove({1});
  CHECK(roster.Add(Named(""), {5}, "e", 0).name == "worker");
  CHECK(roster.Count(Role::kWorker) == 3);
  CHECK(roster.Of(Role::kWorker).back()->incarnation == Incarnation{5});  // order of joining
}

TEST_CASE("a name from outside is made plain") {
  Roster roster(100);
  CHECK(roster.Add(Named("\xff\x1b[31mred one"), {1}, "a", 0).name == "___31mred_one");
  CHECK(roster.Add(Named(std::string(1000, 'x')), {2}, "b", 0).name.size() == 64);
}

TEST_CASE("a member is its incarnation, from whatever peer it writes") {
  Roster roster(100);
  roster.Add(Named("w"), {1}, "a", 0);
  CHECK(roster.Add(Named("other"), {1}, "b", 5).name == "w");
  CHECK(roster.Count(Role::kWorker) == 1);
  const Member* member = roster.Heard({1}, "c", 9);
  REQUIRE(member != nullptr);
  CHECK(member->peer == "c");
  CHECK(member->life.heard_ms() == 9);
  CHECK(roster.Heard({2}, "c", 9) == nullptr);
}

std::vector<std::string> DeadAt(const Roster& roster, int64_t now_ms) {
  std::vector<std::string> names;
  for (const Member* member : roster.Dead(now_ms)) names.push_back(member->name);
  return names;
}

TEST_CASE("who knows the members asks whether one has come or gone") {
  Roster roster(100);
  roster.Add(Named("w"), {1}, "a", 0);
  roster.Add(Named("s", Role::kServer), {2}, "b", 0);
  uint64_t before = roster.changes();
  roster.Add(Named("w"), {1}, "c", 1);
  roster.Heard({2}, "d", 2);
  roster.Remove({9});
  CHECK(roster.changes() == before);
  roster.Add(Named("w"), {3}, "e", 3);
  CHECK(roster.changes() != before);
  before = roster.changes();
  roster.Remove({1});
  CHECK(roster.changes() != before);
}

TEST_CASE("any message ends a silence") {
  Roster roster(100);
  roster.Add(Named("a"), {1}, "a", 0);
  roster.Add(Named("b"), {2}, "b", 0);
  roster.Add(Named("o", Role::kObserver), {3}, "c", 0);
  const int64_t dead_ms = roster.Find({1})->life.DeadAfterMs();
  CHECK(DeadAt(roster, dead_ms).empty());
  roster.Heard({1}, "a", 60);
  CHECK(DeadAt(roster, dead_ms + 1) == std::vector<std::string>{"b"});
}

TEST_CASE("a silent member whose name a later one asks for is given up as soon as it is suspect") {
  Roster roster(100);
  roster.Add(Named("a"), {1}, "a", 0);
  roster.Add(Named("b"), {2}, "b", 0);
  const int64_t suspect_ms = roster.Find({1})->life.SuspectAfterMs();
  roster.Add(Named("a"), {3}, "c", suspect_ms);
  roster.Add(Named("b", Role::kServer), {4}, "d", suspect_ms);  // a namesake of another role
  CHECK(DeadAt(roster, suspect_ms).empty());
  CHECK(DeadAt(roster, suspect_ms + 1) == std::vector<std::string>{"a"});
}

TEST_CASE("who is slow to send gets more time, who is busy no less") {
  FailureDetector slow(100, 0), busy(100, 0), regular(100, 0);
  CHECK(regular.SuspectAfterMs() == 250);
  CHECK(regular.DeadAfterMs() == 750);
  for (int64_t now = 10; now <= 2000; now += 10) busy.Heard(now);
  for (int64_t now = 900; now <= 45000; now += 900) slow.Heard(now);
  CHECK(busy.SuspectAfterMs() == 250);
  CHECK(busy.Suspect(2251));
  CHECK_FALSE(busy.Dead(2251));
  CHECK_FALSE(slow.Suspect(45000 + 1700));
  CHECK(slow.Dead(45000 + 6001));  // never more than 60 heartbeats
}

TEST_CASE("what members used counts after they left") {
  Roster roster(100);
  roster.Add(Named("a"), {1}, "a", 0).heartbeat.cpu_seconds = 2;
  roster.Add(Named("b"), {2}, "b", 0).heartbeat.cpu_seconds = 3;
  roster.Heard({1}, "a", 0)->heartbeat.peak_rss_bytes = 10;
  roster.Remove({1});
  roster.Remove({1});
  CHECK(roster.cpu_seconds() == 5);
  CHECK(roster.peak_rss_bytes() == 10);
}

TEST_CASE("training figures are means over what was counted") {
  TrainingStats stats;
  CHECK(stats.Loss() == 0);
  CHECK(stats.RecallSet() == 0);
  CHECK(stats.ActiveRowsPerBatch() == 0);
  BatchDone done;
  done.samples = 4;
  done.loss_sum = 8;
  done.active_rows = 10;
  done.active_neurons_sum = 40;
  done.bytes_sent = 100;
  done.probed = 2;
  done.recall_set = 1;
  stats.Add(done);
  const TrainingStats earlier = stats;
  done.loss_sum = 4;
  done.active_rows = 30;
  stats.Add(done);
  CHECK(stats.Loss() == doctest::Approx(1.5));
  CHECK(stats.ActiveRowsPerBatch() == 20);
  CHECK(stats.ActiveNeuronsPerSample() == 10);
  CHECK(stats.BytesSentPerSample() == 25);
  CHECK(stats.RecallSet() == doctest::Approx(0.5));
  CHECK(stats.Since(earlier).Loss() == doctest::Approx(1.0));
  CHECK(stats.Since(earlier).batches == 1);
}

TEST_CASE("a connection is of the member that was heard there last") {
  Roster roster(100);
  roster.Add(Named("a"), {1}, "x", 0);
  roster.Add(Named("b"), {2}, "x", 0);
  CHECK(roster.CountAt("x") == 2);
  roster.Heard({1}, "y", 1);
  CHECK(roster.At("x")->incarnation == Incarnation{2});
  CHECK(roster.At("y")->incarnation == Incarnation{1});
  roster.Remove({1});
  CHECK(roster.At("y") == nullptr);
  CHECK(roster.CountAt("x") == 1);
}

TEST_CASE("a name that became free is found again") {
  Roster roster(100);
  for (uint64_t i = 1; i <= 5; ++i) roster.Add(Named("w"), {i}, "p", 0);
  roster.Remove({3});
  CHECK(roster.Add(Named("w"), {6}, "p", 0).name == "w-3");
  CHECK(roster.Add(Named("w"), {7}, "p", 0).name == "w-6");
  roster.Remove({1});  // the next one that asked for it gets it
  CHECK(roster.Find({2})->name == "w");
  CHECK(roster.Add(Named("w"), {8}, "p", 0).name == "w-2");
}

}  // namespace
}  // namespace dslide::roster_test
