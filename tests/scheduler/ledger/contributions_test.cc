#include "scheduler/ledger/contributions.h"

#include <doctest/doctest.h>

#include "scheduler/ledger/ledger.h"

namespace dslide::contributions_test {
namespace {

constexpr uint32_t kDay = 20782;

TEST_CASE("contributions: samples by contributor and day, the greatest first") {
  Contributions contributions;
  contributions.Add("bob", kDay, 10);
  contributions.Add("alice", kDay, 20);
  contributions.Add("alice", kDay + 1, 5);
  contributions.Add("alice", kDay + 1, 6);
  CHECK(contributions.days().at("alice") == Contributions::Days{{kDay, 20}, {kDay + 1, 11}});
  const auto totals = contributions.Totals(kDay + 1);
  REQUIRE(totals.size() == 2);
  CHECK(totals[0].contributor == "alice");
  CHECK(totals[0].samples == 31);
  CHECK(totals[0].today == 11);
  CHECK(totals[1].contributor == "bob");
  CHECK(totals[1].today == 0);
}

TEST_CASE("contributions: only the greatest are told where that is enough") {
  Contributions contributions;
  for (const char* name : {"dave", "carol", "bob", "alice"}) contributions.Add(name, kDay, 10);
  contributions.Add("carol", kDay - 1, 1);
  contributions.Add("eve", kDay - 1, 9);
  const auto names = [&](size_t most) {
    std::vector<std::string> all;
    for (const auto& total : contributions.Totals(kDay, most)) all.push_back(total.contributor);
    return all;
  };
  CHECK(names(0).empty());
  CHECK(names(3) == std::vector<std::string>{"carol", "alice", "bob"});
  CHECK(names(9) == std::vector<std::string>{"carol", "alice", "bob", "dave", "eve"});
  const auto first = contributions.Totals(kDay, 1);
  REQUIRE(first.size() == 1);
  CHECK(first[0].samples == 11);
  CHECK(first[0].today == 10);
  // A clock that goes back does not hide what was done on that day.
  CHECK(contributions.Totals(kDay - 1, 1)[0].today == 1);
}

TEST_CASE("contributions: days have names") {
  CHECK(DayOf(1795600000) == kDay);
  CHECK(DayText(kDay) == "2026-11-25");
  CHECK(DayText(0) == "unknown");
}

TEST_CASE("contributions: names beyond the limit share one") {
  Contributions contributions;
  for (size_t i = 0; i < Contributions::kMost + 5; ++i) {
    contributions.Add(std::to_string(i), kDay, 1);
  }
  CHECK(contributions.days().size() == Contributions::kMost + 1);
  CHECK(contributions.days().at(Contributions::kOthers).at(kDay) == 5);
  contributions.Add("0", kDay, 1);
  CHECK(contributions.days().at("0").at(kDay) == 2);
}

TEST_CASE("contributions: a ledger's state has them, also of what a recovery took back") {
  LedgerState state;
  state.Apply(LedgerOpened{{1}, "", 100, 0});
  state.Apply(LedgerCounted{{0, 0, 0}, 10, "worker-1", "alice", kDay});
  state.Apply(LedgerCounted{{0, 0, 1}, 10, "worker-2"});
  state.Apply(LedgerRestored{"", 0, 0, 0, {}});
  state.Apply(LedgerCounted{{0, 0, 0}, 10, "worker-1", "alice", kDay});
  CHECK(state.samples == 10);
  CHECK(state.contributions.days().at("alice") == Contributions::Days{{kDay, 20}});
  CHECK(state.contributions.days().at("worker-2") == Contributions::Days{{0, 10}});
}

}  // namespace
}  // namespace dslide::contributions_test
