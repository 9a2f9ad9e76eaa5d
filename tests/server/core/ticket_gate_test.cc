#include "server/core/ticket_gate.h"

#include "tests/server/support/part_fixture.h"

namespace dslide::ticket_gate_test {
namespace {

using testing::Ticketed;

constexpr BatchId kBatch{1, 2, 3};

struct Fixture : PartFixture {
  TicketGate gate;

  bool Lets(Body request, Incarnation worker = kWorker, int64_t now_us = 0) {
    return gate.Check(worker, &request, seat, now_us, &out).empty();
  }
  // What is reported since the last call.
  std::vector<Offence> Reports() {
    std::vector<Offence> reports;
    for (const Message& message : out.Drain().to_scheduler) {
      reports.push_back(std::get<Offence>(message.body));
    }
    return reports;
  }
};

Body Embed(bool training) { return EmbedRequest{kBatch, training, {}}; }
Body Query(bool alone) {
  ActiveQuery query;
  query.batch = kBatch;
  query.alone = alone;
  return query;
}
Body TopK() {
  TopKRequest top;
  top.batch = kBatch;
  return top;
}

TEST_CASE_FIXTURE(Fixture, "tickets: whatever begins a batch needs the worker's own for it") {
  for (const Body& begins : {Embed(true), Embed(false), Query(true), TopK()}) {
    CAPTURE(BodyName(begins));
    CHECK(TicketGate::Begins(begins));
    CHECK(Lets(Ticketed(begins, kWorker)));
    CHECK(Reports().empty());
    CHECK_FALSE(Lets(begins));
    CHECK_FALSE(Lets(Ticketed(begins, {6})));
    (void)Reports();
  }
  for (const Body& goes_on :
       {Query(false), Body(GradientPush{kBatch, {}}), Body(EmbedPush{kBatch, {}})}) {
    CHECK_FALSE(TicketGate::Begins(goes_on));
    CHECK(Lets(goes_on));
  }
}

TEST_CASE_FIXTURE(Fixture, "tickets: each is for its batch and kind") {
  EmbedRequest embed = std::get<EmbedRequest>(Ticketed(Embed(true), kWorker));
  SUBCASE("another batch") {
    embed.batch.index++;
    CHECK_FALSE(Lets(embed));
  }
  SUBCASE("an evaluation's does not train") {
    embed.ticket = std::get<TopKRequest>(Ticketed(TopK(), kWorker)).ticket;
    CHECK_FALSE(Lets(embed));
    embed.training = false;
    CHECK(Lets(embed));
  }
  SUBCASE("a batch to train is not evaluated") {
    TopKRequest top = std::get<TopKRequest>(TopK());
    top.ticket = embed.ticket;
    CHECK_FALSE(Lets(top));
  }
}

TEST_CASE_FIXTURE(Fixture, "tickets: a push goes on without a next batch that may not begin") {
  EmbedPush push{kBatch, {}};
  push.next = EmbedRequest{{1, 2, 4}, true, {}};
  Body good = Ticketed(push, kWorker), bad = push;
  CHECK(gate.Check(kWorker, &good, seat, 0, &out).empty());
  CHECK(std::get<EmbedPush>(good).next);
  CHECK(Reports().empty());
  CHECK(gate.Check(kWorker, &bad, seat, 0, &out).empty());
  CHECK_FALSE(std::get<EmbedPush>(bad).next);
  CHECK(Reports().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "tickets: a worker is reported once a second, and so many at most") {
  CHECK_FALSE(Lets(Embed(true)));
  CHECK_FALSE(Lets(Embed(true), kWorker, 10));
  const auto reports = Reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].worker == kWorker.value);
  CHECK(reports[0].batch == kBatch);
  CHECK(reports[0].ticket == 0);
  CHECK_FALSE(Lets(Embed(true), kWorker, TicketGate::kReportGapUs));
  CHECK(Reports().size() == 1);
  for (uint64_t worker = 1000; worker < 3000; ++worker) {
    CHECK_FALSE(Lets(Embed(true), {worker}, 5 * TicketGate::kReportGapUs));
  }
  CHECK(Reports().size() == TicketGate::kMostReported);
}

TEST_CASE_FIXTURE(Fixture,
                  "tickets: without the scheduler's key nothing begins, and nobody is blamed") {
  seat.ticket_key.reset();
  CHECK_FALSE(Lets(Ticketed(Embed(true), kWorker)));
  CHECK(Reports().empty());
}

}  // namespace
}  // namespace dslide::ticket_gate_test
