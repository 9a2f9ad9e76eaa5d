#include "scheduler/members/message_budget.h"

#include <doctest/doctest.h>

#include <string>

namespace dslide::message_budget_test {
namespace {

int TakenOf(MessageBudget* budget, const PeerId& from, int messages, int64_t now_ms) {
  int taken = 0;
  for (int i = 0; i < messages; ++i) taken += budget->Take(from, now_ms);
  return taken;
}

TEST_CASE("message budget: a stranger has little, a member much, and each its own") {
  MessageBudget budget;
  CHECK(TakenOf(&budget, "a", 1000, 0) == 80);
  CHECK(TakenOf(&budget, "a", 1000, 500) == 20);
  CHECK(TakenOf(&budget, "b", 1000, 500) == 80);
  budget.Promote("b");
  CHECK(TakenOf(&budget, "b", 100'000, 500) == 8000 - 80);
  CHECK(TakenOf(&budget, "b", 100'000, 1500) == 4000);
  CHECK(TakenOf(&budget, "a", 1000, 1'000'000) == 80);  // no more is saved up
}

TEST_CASE("message budget: a busy worker never runs out of it") {
  MessageBudget budget;
  REQUIRE(budget.Take("w", 0));
  budget.Promote("w");
  for (int64_t now_ms = 0; now_ms < 60'000; ++now_ms) {
    CHECK(TakenOf(&budget, "w", 3, now_ms) == 3);  // 3,000 messages a second
  }
}

TEST_CASE("message budget: what costs more takes more, and a debt lasts a second at most") {
  MessageBudget budget;
  REQUIRE(budget.Take("o", 0));
  budget.Promote("o");
  for (int i = 0; i < 8; ++i) {
    if (i > 0) CHECK(budget.Take("o", 0));
    budget.Charge("o", MessageBudget::kStatus);
  }
  CHECK_FALSE(budget.Take("o", 0));
  budget.Charge("o", 1e9);
  CHECK_FALSE(budget.Take("o", 1000));
  CHECK(budget.Take("o", 1001));

  // Messages of an earlier life of the scheduler are refused before a member joins again.
  for (int i = 0; i < 1000; ++i) {
    if (budget.Take("s", 0)) budget.Charge("s", MessageBudget::kRefused);
  }
  CHECK(budget.Take("s", 1100));
}

TEST_CASE("message budget: connections are forgotten when they have been silent") {
  MessageBudget budget;
  for (int i = 0; i < 1000; ++i) CHECK(budget.Take(std::to_string(i), 0));
  budget.Promote("7");
  CHECK(TakenOf(&budget, "7", 7999, 0) == 7999);
  budget.Trim(1000);
  CHECK(budget.size() == 1);
  budget.Trim(2000);
  CHECK(budget.size() == 0);
  budget.Charge("7", 1);
  budget.Promote("7");  // nobody
  CHECK(budget.size() == 0);
}

TEST_CASE("message budget: no number of connections takes more memory than it may") {
  MessageBudget budget;
  for (size_t i = 0; i < MessageBudget::kMostBudgets; ++i) {
    REQUIRE(budget.Take(std::to_string(i), 0));
  }
  CHECK_FALSE(budget.Take("another", 0));
  CHECK(budget.Take("another", 5000));
  CHECK(budget.size() == 1);
}

}  // namespace
}  // namespace dslide::message_budget_test
