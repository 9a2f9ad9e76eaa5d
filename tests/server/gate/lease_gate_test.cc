#include "server/gate/lease_gate.h"

#include "tests/server/support/part_fixture.h"

namespace dslide::lease_gate_test {
namespace {

using testing::Ticketed;

constexpr BatchId kBatch{1, 2, 3};

struct Fixture : PartFixture {
  bool Lets(Body request, Incarnation worker = kWorker) {
    return LeaseGate::Check(worker, &request, seat, &out).empty();
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
    CHECK(LeaseGate::Begins(begins));
    CHECK(Lets(Ticketed(begins, kWorker)));
    CHECK(out.TakeOffences().empty());
    CHECK_FALSE(Lets(begins));
    CHECK_FALSE(Lets(Ticketed(begins, {6})));
    (void)out.TakeOffences();
  }
  for (const Body& goes_on :
       {Query(false), Body(GradientPush{kBatch, {}}), Body(EmbedPush{kBatch, {}})}) {
    CHECK_FALSE(LeaseGate::Begins(goes_on));
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
  CHECK(LeaseGate::Check(kWorker, &good, seat, &out).empty());
  CHECK(std::get<EmbedPush>(good).next);
  CHECK(out.TakeOffences().empty());
  CHECK(LeaseGate::Check(kWorker, &bad, seat, &out).empty());
  CHECK_FALSE(std::get<EmbedPush>(bad).next);
  const auto offences = out.TakeOffences();
  REQUIRE(offences.size() == 1);
  CHECK(offences[0].worker == kWorker.value);
  CHECK(offences[0].batch == BatchId{1, 2, 4});
  CHECK(offences[0].ticket.empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "tickets: without the scheduler's key nothing begins, and nobody is blamed") {
  seat.keys.reset();
  CHECK_FALSE(Lets(Ticketed(Embed(true), kWorker)));
  CHECK(out.TakeOffences().empty());
}

}  // namespace
}  // namespace dslide::lease_gate_test
