// Audits by hand: who trains again, who is believed, when an audit ends.
#include "scheduler/pass/audits.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace dslide::audits_test {
namespace {

constexpr Incarnation kAlice{1}, kBob{2}, kCarol{3}, kDave{4};
constexpr Incarnation kFirst{11}, kSecond{12};
constexpr int64_t kPatienceMs = 1000;
const std::vector<Incarnation> kServers = {kFirst, kSecond};

struct Setup {
  BatchId batch{0, 1, 2};
  Audits audits{1.0f, 7, kPatienceMs};

  Setup() { REQUIRE(audits.Begin(batch, 10, kAlice, 0)); }
  void Report(Incarnation server, std::vector<uint64_t> workers, std::vector<uint64_t> digests) {
    audits.Take(server, {batch, std::move(workers), std::move(digests)});
  }
  std::optional<Audits::Outcome> Ended(int64_t now_ms = 10) {
    auto ended = audits.Ended(kServers, now_ms);
    return ended.empty() ? std::nullopt : std::optional(ended[0]);
  }
};

TEST_CASE("audits: two that agree are believed, once all servers have reported") {
  Setup setup;
  CHECK_FALSE(setup.audits.Next(kAlice, 1).has_value());
  CHECK(setup.audits.Next(kBob, 1) == setup.batch);
  CHECK_FALSE(setup.audits.Next(kCarol, 2).has_value());
  setup.Report(kFirst, {1, 2}, {5, 5});
  CHECK_FALSE(setup.Ended().has_value());
  setup.Report(kSecond, {2, 1}, {6, 6});
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(outcome->number == 10);
  CHECK(outcome->liars.empty());
  CHECK_FALSE(outcome->liar_counts);
  CHECK_FALSE(outcome->skipped);
  CHECK(setup.audits.open() == 0);
}

TEST_CASE("audits: of two that differ a third decides who lies") {
  Setup setup;
  REQUIRE(setup.audits.Next(kBob, 1).has_value());
  setup.Report(kFirst, {1, 2}, {5, 5});
  setup.Report(kSecond, {1, 2}, {6, 9});
  CHECK_FALSE(setup.Ended().has_value());
  CHECK_FALSE(setup.audits.Next(kBob, 2).has_value());
  REQUIRE(setup.audits.Next(kCarol, 2).has_value());

  SUBCASE("the second: what it sent is in no sum") {
    setup.Report(kFirst, {1, 2, 3}, {5, 5, 5});
    setup.Report(kSecond, {1, 2, 3}, {6, 9, 6});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(outcome->liars == std::vector<Incarnation>{kBob});
    CHECK_FALSE(outcome->liar_counts);
  }
  SUBCASE("the first: its gradients count at one server at least") {
    setup.Report(kFirst, {1, 2, 3}, {5, 5, 5});
    setup.Report(kSecond, {1, 2, 3}, {9, 6, 6});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(outcome->liars == std::vector<Incarnation>{kAlice});
    CHECK(outcome->liar_counts);
  }
}

TEST_CASE("audits: whoever is silent is not waited for") {
  Setup setup;
  REQUIRE(setup.audits.Next(kBob, 1).has_value());
  CHECK_FALSE(setup.audits.Next(kCarol, kPatienceMs).has_value());
  CHECK(setup.audits.Next(kCarol, 1 + kPatienceMs).has_value());
  CHECK_FALSE(setup.Ended(kPatienceMs + 2).has_value());
  const auto outcome = setup.Ended(3 * kPatienceMs);
  REQUIRE(outcome.has_value());
  CHECK(outcome->skipped);
}

TEST_CASE("audits: workers that all differ decide nothing") {
  Setup setup;
  REQUIRE(setup.audits.Next(kBob, 1).has_value());
  setup.Report(kFirst, {1, 2}, {5, 6});
  setup.Report(kSecond, {1, 2}, {5, 6});
  CHECK_FALSE(setup.Ended(kPatienceMs).has_value());
  const auto outcome = setup.Ended(3 * kPatienceMs);
  REQUIRE(outcome.has_value());
  CHECK(outcome->undecided);
  CHECK(outcome->liars.empty());
}

TEST_CASE("audits: the share that was asked for, by a secret") {
  const auto chosen = [](uint64_t secret) {
    Audits audits(0.02f, secret, kPatienceMs);
    std::vector<bool> all;
    for (uint32_t i = 0; i < 50000; ++i) {
      all.push_back(audits.Begin({0, i, 0}, i, kDave, 0));
    }
    return all;
  };
  const std::vector<bool> one = chosen(1);
  CHECK(static_cast<double>(std::ranges::count(one, true)) == doctest::Approx(1000).epsilon(0.1));
  CHECK(one == chosen(1));
  CHECK(one != chosen(2));
  CHECK_FALSE(Audits(0, 1, kPatienceMs).Begin({0, 0, 0}, 0, kAlice, 0));
}

}  // namespace
}  // namespace dslide::audits_test
