// Audits by hand: who trains again, who is believed, what counts, when an audit ends.
#include "scheduler/pass/audits.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace dslide::audits_test {
namespace {

using Workers = std::vector<Incarnation>;

// Members of a key have its fingerprint in their upper half.
constexpr Incarnation Of(uint64_t key, uint64_t member = 1) { return {key << 32 | member}; }

constexpr Incarnation kAlice = Of(1), kBob = Of(2), kCarol = Of(3), kDave = Of(4), kEve = Of(5);
constexpr Incarnation kMallory = Of(9, 1), kMallory2 = Of(9, 2), kMallory3 = Of(9, 3);
constexpr Incarnation kFirst{11}, kSecond{12};
constexpr int64_t kPatienceMs = 1000;
constexpr BatchId kBatch{0, 1, 2};

struct Work {
  Incarnation worker;
  uint64_t output;
  uint64_t input;
};

struct Setup {
  Audits audits;
  Workers workers;

  explicit Setup(Workers members, Incarnation first = kAlice, Workers holders = {},
                 bool keyed = true)
      : audits({1.0f, 7, kPatienceMs, keyed}) {
    Follow(std::move(members));
    REQUIRE(audits.Begin(kBatch, 10, first, holders, 0));
  }
  void Follow(Workers members) {
    workers = std::move(members);
    audits.Follow({{{kFirst, true, true}, {kSecond, true, true}}, workers});
  }
  bool Asked(Incarnation worker, int64_t now_ms = 1) {
    return audits.Next(worker, now_ms) == kBatch;
  }
  // The first one's work counts.
  void Report(Incarnation server, const std::vector<Work>& all) {
    ReportCounting(server, all[0].worker, all[0].worker, all);
  }
  void ReportCounting(Incarnation server, Incarnation output, Incarnation input,
                      const std::vector<Work>& all) {
    AuditReport report;
    report.batch = kBatch;
    report.output_counts = output.value;
    report.input_counts = input.value;
    for (const Work& work : all) {
      report.workers.push_back(work.worker.value);
      report.digests.push_back(work.output);
      report.input_digests.push_back(work.input);
    }
    audits.Take(server, report);
  }
  // At both servers.
  void ReportAll(const std::vector<Work>& all) {
    Report(kFirst, all);
    Report(kSecond, all);
  }
  std::optional<Audits::Outcome> Ended(int64_t now_ms = 10) {
    auto ended = audits.Ended(now_ms);
    return ended.empty() ? std::nullopt : std::optional(ended[0]);
  }
};

Workers Liars(const Audits::Outcome& outcome) {
  Workers liars;
  for (const Audits::Liar& liar : outcome.liars) liars.push_back(liar.worker);
  return liars;
}

TEST_CASE("audits: what is reported of a batch ends its audit, and time ends audits elsewhere") {
  Setup setup({kAlice, kBob, kCarol});
  constexpr BatchId kOther{0, 1, 3};
  REQUIRE(setup.audits.Begin(kOther, 11, kAlice, {}, 0));
  CHECK_FALSE(setup.audits.EndedBy(kBatch, 1).has_value());
  REQUIRE(setup.Asked(kBob));
  const std::vector<Work> all = {{kAlice, 5, 5}, {kBob, 5, 5}};
  setup.Report(kSecond, all);
  CHECK_FALSE(setup.audits.EndedBy(kBatch, 2).has_value());
  setup.Report(kFirst, {{kAlice, 5, 5}});
  CHECK_FALSE(setup.audits.EndedBy(kBatch, 2).has_value());
  setup.Report(kFirst, all);
  CHECK_FALSE(setup.audits.EndedBy(kOther, 2).has_value());
  CHECK_FALSE(setup.audits.EndedBy({0, 9, 9}, 2).has_value());
  const auto outcome = setup.audits.EndedBy(kBatch, 2);
  REQUIRE(outcome.has_value());
  CHECK(outcome->number == 10);
  CHECK(outcome->voted == Workers{kBob});
  CHECK_FALSE(setup.audits.EndedBy(kBatch, 2).has_value());
  // Nobody answers for the other batch.
  CHECK(setup.audits.Ended(3).empty());
  CHECK_FALSE(setup.audits.EndedBy(kOther, 9 * kPatienceMs).has_value());
  CHECK(setup.audits.open() == 1);
  CHECK(setup.audits.Ended(9 * kPatienceMs).size() == 1);
}

TEST_CASE("audits: two that agree are believed, once all servers have reported") {
  Setup setup({kAlice, kBob, kCarol});
  CHECK_FALSE(setup.Asked(kAlice));
  CHECK(setup.Asked(kBob));
  CHECK_FALSE(setup.Asked(kBob));
  CHECK_FALSE(setup.Asked(kCarol));
  setup.Report(kFirst, {{kAlice, 5, 6}, {kBob, 5, 6}});
  CHECK_FALSE(setup.Ended().has_value());
  setup.Report(kSecond, {{kAlice, 7, 8}, {kBob, 7, 8}});
  CHECK_FALSE(setup.Asked(kCarol));
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(outcome->number == 10);
  CHECK(outcome->liars.empty());
  CHECK_FALSE(outcome->take_back);
  CHECK_FALSE(outcome->skipped);
  CHECK(outcome->voted == Workers{kBob});
  CHECK(setup.audits.open() == 0);
}

TEST_CASE("audits: of two that differ a third decides who lies") {
  Setup setup({kAlice, kBob, kCarol});
  REQUIRE(setup.Asked(kBob));
  setup.Report(kFirst, {{kAlice, 5, 5}, {kBob, 5, 5}});
  setup.Report(kSecond, {{kAlice, 6, 6}, {kBob, 6, 9}});
  CHECK_FALSE(setup.Ended().has_value());
  CHECK_FALSE(setup.Asked(kBob, 2));
  REQUIRE(setup.Asked(kCarol, 2));
  setup.Report(kFirst, {{kAlice, 5, 5}, {kBob, 5, 5}, {kCarol, 5, 5}});

  SUBCASE("the second: what it sent is in no sum") {
    setup.Report(kSecond, {{kAlice, 6, 6}, {kBob, 6, 9}, {kCarol, 6, 6}});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(Liars(*outcome) == Workers{kBob});
    CHECK_FALSE(outcome->liars[0].key_was_honest);
    CHECK_FALSE(outcome->take_back);
  }
  SUBCASE("the first: its gradients count at one server at least") {
    setup.Report(kSecond, {{kAlice, 6, 6}, {kBob, 6, 9}, {kCarol, 6, 9}});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(Liars(*outcome) == Workers{kAlice});
    CHECK(outcome->take_back);
  }
}

TEST_CASE("audits: all members of a key have one vote, and other keys are asked") {
  Setup setup({kMallory, kMallory2, kMallory3, kAlice, kBob}, kMallory, {kMallory, kMallory2});
  CHECK_FALSE(setup.Asked(kMallory3));
  setup.ReportAll({{kMallory, 6, 6}, {kMallory2, 6, 6}, {kMallory3, 6, 6}});
  CHECK_FALSE(setup.Ended().has_value());
  CHECK_FALSE(setup.Asked(kMallory3));
  REQUIRE(setup.Asked(kAlice));
  setup.ReportAll({{kMallory, 6, 6}, {kMallory2, 6, 6}, {kMallory3, 6, 6}, {kAlice, 5, 5}});
  CHECK_FALSE(setup.Ended().has_value());
  REQUIRE(setup.Asked(kBob));
  setup.ReportAll(
      {{kMallory, 6, 6}, {kMallory2, 6, 6}, {kMallory3, 6, 6}, {kAlice, 5, 5}, {kBob, 5, 5}});
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(Liars(*outcome) == Workers{kMallory, kMallory2});
  CHECK(outcome->take_back);
}

TEST_CASE("audits: whoever was not asked has no vote and frames nobody") {
  Setup setup({kAlice, kBob, kCarol, kMallory, kMallory2, kEve});
  setup.ReportAll({{kAlice, 5, 5}, {kMallory, 6, 6}, {kMallory2, 6, 6}, {kEve, 6, 6}});
  CHECK_FALSE(setup.Ended().has_value());
  REQUIRE(setup.Asked(kBob));
  setup.ReportAll(
      {{kAlice, 5, 5}, {kMallory, 6, 6}, {kMallory2, 6, 6}, {kEve, 6, 6}, {kBob, 5, 5}});
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(outcome->liars.empty());
  CHECK_FALSE(outcome->take_back);
}

TEST_CASE("audits: a tie is undecided, and asks on") {
  Setup setup({kAlice, kBob, kMallory, kEve, kCarol}, kMallory, {kMallory, kAlice});
  setup.ReportAll({{kMallory, 6, 6}, {kAlice, 5, 5}});
  REQUIRE(setup.Asked(kEve));
  SUBCASE("two to two") {
    setup.ReportAll({{kMallory, 6, 6}, {kAlice, 5, 5}, {kEve, 7, 7}});
    REQUIRE(setup.Asked(kBob));
    setup.ReportAll({{kMallory, 6, 6}, {kAlice, 5, 5}, {kEve, 7, 7}, {kBob, 5, 5}});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(Liars(*outcome) == Workers{kEve, kMallory});
    CHECK(outcome->take_back);
  }
  SUBCASE("each another one, until nobody is left") {
    setup.ReportAll({{kMallory, 6, 6}, {kAlice, 5, 5}, {kEve, 7, 7}});
    setup.Follow({kAlice, kMallory, kEve});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(outcome->undecided);
    CHECK(outcome->liars.empty());
    CHECK_FALSE(outcome->take_back);
  }
}

TEST_CASE("audits: what counts is judged, whoever sent it and whether it was ended or not") {
  Setup setup({kAlice, kBob});
  REQUIRE(setup.Asked(kBob));
  SUBCASE("another worker's lie, at one server, of one part") {
    setup.Report(kFirst, {{kAlice, 5, 5}, {kBob, 5, 5}});
    setup.ReportCounting(kSecond, kMallory, kAlice,
                         {{kMallory, 6, 0}, {kAlice, 5, 5}, {kBob, 5, 5}});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(Liars(*outcome) == Workers{kMallory});
    CHECK(outcome->take_back);
  }
  SUBCASE("another worker's honest part") {
    setup.Report(kFirst, {{kAlice, 5, 5}, {kBob, 5, 5}});
    setup.ReportCounting(kSecond, kCarol, kAlice, {{kCarol, 5, 0}, {kAlice, 5, 5}, {kBob, 5, 5}});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(outcome->liars.empty());
    CHECK_FALSE(outcome->take_back);
  }
}

TEST_CASE("audits: a worker that reports a batch which it has not sent everywhere lies") {
  Setup setup({kAlice, kBob, kMallory}, kMallory);
  REQUIRE(setup.Asked(kBob));
  setup.Report(kFirst, {{kMallory, 6, 6}, {kBob, 5, 5}});
  setup.Report(kSecond, {{kBob, 5, 5}});
  REQUIRE(setup.Asked(kAlice));
  setup.Report(kFirst, {{kMallory, 6, 6}, {kBob, 5, 5}, {kAlice, 5, 5}});
  setup.Report(kSecond, {{kBob, 5, 5}, {kAlice, 5, 5}});
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(Liars(*outcome) == Workers{kMallory});
  CHECK(outcome->take_back);
}

TEST_CASE("audits: a key with an honest member is known as such") {
  Setup setup({kMallory, kMallory2, kAlice}, kMallory, {kMallory, kMallory2});
  REQUIRE_FALSE(setup.Asked(kAlice));  // the second holder is waited for
  setup.ReportAll({{kMallory, 6, 6}, {kMallory2, 5, 5}});
  REQUIRE(setup.Asked(kAlice));
  setup.ReportAll({{kMallory, 6, 6}, {kMallory2, 5, 5}, {kAlice, 5, 5}});
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(Liars(*outcome) == Workers{kMallory});
  CHECK(outcome->liars[0].key_was_honest);
}

TEST_CASE("audits: without keys each worker has a vote") {
  Setup setup({kMallory, kMallory2}, kMallory, {}, false);
  CHECK(setup.Asked(kMallory2));
}

TEST_CASE("audits: who holds a lease is not asked again, and reports may come before the batch") {
  Audits audits({1.0f, 7, kPatienceMs, true});
  audits.Follow({{{kFirst, true, false}, {kSecond, false, true}}, {kAlice, kBob}});
  AuditReport report{kBatch, {kAlice.value, kBob.value}, {5, 5}, {0, 0}, kBob.value, 0};
  audits.Take(kFirst, report);
  report = {kBatch, {kAlice.value, kBob.value}, {0, 0}, {6, 6}, 0, kAlice.value};
  audits.Take(kSecond, report);
  REQUIRE(audits.Begin(kBatch, 10, kAlice, {kAlice, kBob}, 0));
  CHECK_FALSE(audits.Next(kBob, 1).has_value());
  const auto ended = audits.Ended(1);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].liars.empty());
  CHECK_FALSE(ended[0].take_back);
  CHECK_FALSE(ended[0].skipped);
}

TEST_CASE("audits: what a server has said of a worker stands") {
  Setup setup({kAlice, kBob});
  REQUIRE(setup.Asked(kBob));
  setup.ReportAll({{kAlice, 6, 6}, {kBob, 5, 5}});
  setup.ReportAll({{kAlice, 5, 5}, {kBob, 5, 5}});
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(outcome->undecided);
}

TEST_CASE("audits: who holds a lease and does not end the batch does not hold the audit up") {
  Setup setup({kAlice, kBob, kCarol, kDave}, kAlice, {kAlice, kEve});
  const int64_t part_ms = kPatienceMs / Audits::kSlow;
  CHECK_FALSE(setup.Asked(kBob, part_ms - 1));
  CHECK(setup.Asked(kBob, part_ms));
  SUBCASE("another one answers") {
    setup.ReportAll({{kAlice, 5, 6}, {kBob, 5, 6}});
    const auto outcome = setup.Ended(part_ms + 1);
    REQUIRE(outcome.has_value());
    CHECK(outcome->liars.empty());
    CHECK(outcome->missed.empty());
  }
  SUBCASE("neither does the other one, and the next is asked later") {
    CHECK_FALSE(setup.Asked(kCarol, 3 * part_ms - 1));
    CHECK(setup.Asked(kCarol, 3 * part_ms));
    CHECK_FALSE(setup.Asked(kDave, 6 * part_ms - 1));
    CHECK(setup.Asked(kDave, 6 * part_ms));
    setup.ReportAll({{kAlice, 5, 6}, {kBob, 5, 6}});  // late
    CHECK(setup.Ended(7 * part_ms)->missed.empty());
  }
}

TEST_CASE("audits: nobody else is asked before a batch can be done") {
  Setup setup({kAlice, kBob, kCarol});
  REQUIRE(setup.Asked(kBob));
  setup.audits.Follow(
      {{{kFirst, true, true}, {kSecond, true, true}}, {kAlice, kBob, kCarol}, kPatienceMs / 4.0});
  CHECK_FALSE(setup.Asked(kCarol, kPatienceMs / 2));
  CHECK(setup.Asked(kCarol, kPatienceMs / 2 + 1));
}

TEST_CASE("audits: whoever is silent is not waited for, nor asked again") {
  Setup setup({kAlice, kBob, kCarol});
  REQUIRE(setup.Asked(kBob));
  CHECK_FALSE(setup.Ended(kPatienceMs + 1).has_value());
  CHECK_FALSE(setup.Asked(kBob, kPatienceMs + 2));
  CHECK(setup.Asked(kCarol, kPatienceMs + 2));
  CHECK_FALSE(setup.Ended(kPatienceMs + 3).has_value());
  const auto outcome = setup.Ended(3 * kPatienceMs);
  REQUIRE(outcome.has_value());
  CHECK(outcome->skipped);
  CHECK_FALSE(outcome->take_back);  // there is nobody else
  CHECK(outcome->missed == Workers{kBob, kCarol});
}

TEST_CASE("audits: silent members of a few keys do not switch an audit off") {
  Workers workers = {kMallory, kBob};
  for (uint64_t key = 20; key < 30; ++key) workers.push_back(Of(key));
  Setup setup(workers, kMallory);
  int64_t now_ms = 0;
  for (uint64_t key = 20; key < 30; ++key) {
    REQUIRE(setup.Asked(Of(key), now_ms));
    CHECK_FALSE(setup.Asked(Of(key, 2), now_ms));
    now_ms += kPatienceMs;
    CHECK_FALSE(setup.Ended(now_ms).has_value());
  }
  REQUIRE(setup.Asked(kBob, now_ms));
}

TEST_CASE("audits: a batch does not count while there are others that could confirm it") {
  Setup setup({kAlice, kBob, kCarol});
  SUBCASE("nobody has trained it") {
    CHECK_FALSE(setup.Ended(5).has_value());
    CHECK_FALSE(setup.Ended(4 + kPatienceMs).has_value());
    const auto outcome = setup.Ended(5 + kPatienceMs);
    REQUIRE(outcome.has_value());
    CHECK(outcome->skipped);
    CHECK(outcome->take_back);
    CHECK(outcome->missed == Workers{kBob, kCarol});
  }
  SUBCASE("one that differs has") {
    REQUIRE(setup.Asked(kBob));
    setup.ReportAll({{kAlice, 5, 5}, {kBob, 6, 6}});
    CHECK_FALSE(setup.Ended(5).has_value());
    const auto outcome = setup.Ended(5 + kPatienceMs);
    REQUIRE(outcome.has_value());
    CHECK(outcome->undecided);
    CHECK(outcome->take_back);
    CHECK(outcome->missed == Workers{kCarol});
  }
}

TEST_CASE("audits: five that all differ decide nothing") {
  Setup setup({kAlice, kBob, kCarol, kDave, kEve, kMallory});
  std::vector<Work> all = {{kAlice, 1, 1}};
  for (const Incarnation worker : {kBob, kCarol, kDave, kEve}) {
    REQUIRE(setup.Asked(worker));
    all.push_back({worker, all.size() + 1, 1});
    setup.ReportAll(all);
  }
  CHECK_FALSE(setup.Asked(kMallory));
  const auto outcome = setup.Ended();
  REQUIRE(outcome.has_value());
  CHECK(outcome->undecided);
  CHECK(outcome->liars.empty());
  CHECK(outcome->take_back);
}

TEST_CASE("audits: nobody waits for a worker that leaves") {
  Setup setup({kAlice, kBob, kCarol});
  REQUIRE(setup.Asked(kBob));
  setup.audits.Leave(kBob);
  setup.Follow({kAlice, kCarol, Of(2, 2)});
  SUBCASE("another key") { CHECK(setup.Asked(kCarol)); }
  SUBCASE("the next life of it, but not for ever") {
    REQUIRE(setup.Asked(Of(2, 2)));
    setup.audits.Leave(Of(2, 2));
    CHECK_FALSE(setup.Asked(Of(2, 3)));
    CHECK(setup.Asked(kCarol));
  }
  SUBCASE("nobody is left") {
    setup.Follow({kAlice});
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK(outcome->skipped);
    CHECK_FALSE(outcome->take_back);
  }
  SUBCASE("who has left after voting has voted") {
    REQUIRE(setup.Asked(kCarol));
    setup.ReportAll({{kAlice, 5, 5}, {kCarol, 5, 5}});
    setup.audits.Leave(kCarol);
    const auto outcome = setup.Ended();
    REQUIRE(outcome.has_value());
    CHECK_FALSE(outcome->skipped);
  }
}

TEST_CASE("audits: a pause is nobody's fault") {
  Setup setup({kAlice, kBob, kCarol});
  REQUIRE(setup.Asked(kBob));
  setup.audits.Renew(kPatienceMs);
  CHECK_FALSE(setup.Asked(kCarol, kPatienceMs + 1));
  CHECK(setup.Asked(kCarol, 2 * kPatienceMs));
}

TEST_CASE("audits: a batch is not audited while there is no other key") {
  Audits audits({1.0f, 7, kPatienceMs, true});
  CHECK_FALSE(audits.Begin(kBatch, 10, kAlice, {kAlice}, 0));
  audits.Follow({{{kFirst, true, true}}, {kMallory, kMallory2}});
  CHECK_FALSE(audits.Begin(kBatch, 10, kMallory, {kMallory}, 0));
  audits.Follow({{{kFirst, true, true}}, {kMallory, kAlice}});
  CHECK(audits.Begin(kBatch, 10, kMallory, {kMallory}, 0));
}

TEST_CASE("audits: the share that was asked for, by a secret, and anew each time") {
  const auto chosen = [](uint64_t secret, int64_t now_ms) {
    Audits audits({0.02f, secret, kPatienceMs, true});
    audits.Follow({{{kFirst, true, true}}, {kAlice, kDave}});
    std::vector<bool> all;
    for (uint32_t i = 0; i < 50000; ++i) {
      all.push_back(audits.Begin({0, i, 0}, i, kDave, {}, now_ms));
    }
    return all;
  };
  const std::vector<bool> one = chosen(1, 0);
  CHECK(static_cast<double>(std::ranges::count(one, true)) == doctest::Approx(1000).epsilon(0.1));
  CHECK(one == chosen(1, 0));
  CHECK(one != chosen(2, 0));
  CHECK(one != chosen(1, 1));
  Audits none({0, 1, kPatienceMs, true});
  none.Follow({{{kFirst, true, true}}, {kAlice, kDave}});
  CHECK_FALSE(none.Begin({0, 0, 0}, 0, kAlice, {}, 0));
}

}  // namespace
}  // namespace dslide::audits_test
