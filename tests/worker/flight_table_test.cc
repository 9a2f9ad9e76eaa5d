#include "worker/flight_table.h"

#include <doctest/doctest.h>

#include "common/run/slot_plan.h"

namespace dslide::flight_table_test {
namespace {

constexpr uint32_t kServers = 2;

// Flights of one sample each, on two servers.
struct FlightFixture {
  Config config;
  Plan plan = EqualPlan(1, 4, {{"a", "a"}, {"b", "b"}});
  FlightTable table;
  uint64_t sequence = 0;

  FlightFixture() {
    config.cluster.slots = 4;
    ResolveConfig(12, 8, &config);
  }
  uint64_t Begin(uint64_t number, uint64_t step = 0) {
    LeasedBatch leased;
    leased.number = number;
    leased.lease.kind = LeaseKind::kTrain;
    leased.batch.features.ids = {1};
    leased.batch.features.values = {1.0f};
    leased.batch.features.offsets = {0, 1};
    leased.batch.labels.ids = {2};
    leased.batch.labels.offsets = {0, 1};
    BatchFlight batch(config, plan, leased.lease, leased.batch, number);
    return table.Begin({std::move(batch), std::move(leased), step, 0});
  }
  // Requests to both servers; returns their sequences.
  std::vector<uint64_t> Request(uint64_t flight, std::optional<uint64_t> next = {}) {
    std::vector<uint64_t> sequences;
    for (uint32_t server = 0; server < kServers; ++server) {
      table.Await(++sequence, {flight, next, server, 0, WirePrecision::kBf16});
      sequences.push_back(sequence);
    }
    table.CheckInvariants(kServers);
    return sequences;
  }
};

TEST_CASE_FIXTURE(FlightFixture, "flight table: a reply is taken once, and from its server") {
  const auto sequences = Request(Begin(5));
  CHECK_FALSE(table.Take(sequences[0], 1));
  CHECK(table.Take(sequences[0], 0)->server == 0);
  CHECK_FALSE(table.Take(sequences[0], 0));
  CHECK_FALSE(table.Take(99, 0));
  CHECK(table.awaited().size() == 1);
}

TEST_CASE_FIXTURE(FlightFixture, "flight table: a flight that fails takes its requests along") {
  const uint64_t other = Begin(4);
  const auto kept = Request(other);
  const uint64_t failing = Begin(5);
  Request(failing);
  const auto failed = table.Fail(failing);
  REQUIRE(failed);
  CHECK(failed->leased.number == 5);
  CHECK_FALSE(failed->next);
  CHECK_FALSE(table.Has(failing));
  CHECK_FALSE(table.Fail(failing));
  CHECK(table.awaited().size() == kServers);
  CHECK(table.awaited().contains(kept[0]));
  table.CheckInvariants(kServers);
}

TEST_CASE_FIXTURE(FlightFixture, "flight table: a push and the batch that goes with it") {
  const uint64_t pushing = Begin(4), next = Begin(5);
  table.At(pushing).answered = table.At(pushing).pushed = true;
  const auto sequences = Request(pushing, next);
  CHECK(table.CountUnpushed(0) == 1);
  SUBCASE("the push fails: the next batch has lost its request") {
    CHECK(table.Fail(pushing)->next == next);
    CHECK(table.awaited().empty());
  }
  SUBCASE("the next batch fails: the push stands") {
    CHECK_FALSE(table.Fail(next)->next);
    CHECK_FALSE(table.Take(sequences[1], 1)->next);
    CHECK(table.Has(pushing));
  }
  table.CheckInvariants(kServers);
}

TEST_CASE_FIXTURE(FlightFixture,
                  "flight table: requests without a reply are sent again after a time") {
  const auto sequences = Request(Begin(5));
  std::vector<uint64_t> sent;
  const auto send = [&](uint64_t number, const AwaitedReply& request) {
    CHECK(request.repeats > 0);
    CHECK(std::holds_alternative<EmbedRequest>(table.RequestOf(request)));
    sent.push_back(number);
  };
  table.SendAgain(99, 100, send);
  CHECK(sent.empty());
  table.SendAgain(100, 100, send);
  CHECK(sent == sequences);
  // Then later and later: twice the time, four times, and no longer than that.
  for (const auto& [early, due] : {std::pair{299, 300}, {699, 700}, {1099, 1100}}) {
    sent.clear();
    table.SendAgain(early, 100, send);
    CHECK(sent.empty());
    table.SendAgain(due, 100, send);
    CHECK(sent == sequences);
  }
}

TEST_CASE_FIXTURE(FlightFixture,
                  "flight table: a new plan begins the batches again in their order") {
  for (const uint64_t number : {8, 6, 7}) Request(Begin(number));
  const auto batches = table.Clear();
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].number == 8);
  CHECK(batches[2].number == 7);
  CHECK(table.empty());
  CHECK(table.awaited().empty());
}

TEST_CASE_FIXTURE(FlightFixture, "flight table: flights of later steps are not counted") {
  for (const uint64_t step : {0, 1, 1}) Begin(step, step);
  CHECK(table.CountUnpushed(0) == 1);
  CHECK(table.CountUnpushed(1) == 3);
  CHECK(table.Unanswered().size() == 3);
}

}  // namespace
}  // namespace dslide::flight_table_test
