#include "server/core/request_table.h"

#include <algorithm>

#include "common/base/overloaded.h"
#include "tests/server/support/part_fixture.h"
#include "tests/server/support/sorted_actions.h"

namespace dslide::request_table_test {
namespace {

struct Fixture : PartFixture {
  RequestTable table;

  Fixture() {
    ServerLoad load;
    load.slots.resize(2);  // executors
    out.Load(std::move(load));
    (void)out.Drain();
  }

  // With the tickets that it needs.
  SortedActions Take(uint64_t sequence, Body body, Incarnation worker = kWorker) {
    return TakeAsIs(sequence, testing::Ticketed(std::move(body), worker), worker);
  }
  SortedActions TakeAsIs(uint64_t sequence, Body body, Incarnation worker = kWorker) {
    Message message{{{}, worker, sequence, 0, 1}, std::move(body)};
    std::visit(
        Overloaded{
            [&](const verdict::Serve&) { table.Serve("peer", std::move(message), seat, 0, &out); },
            [&](const verdict::Repeat& repeat) { out.SendToPeer("peer", repeat.reply); },
            [&](const verdict::Refuse& refuse) { out.Answer("peer", sequence, refuse.why); },
            [](const auto&) {},
        },
        table.Admit(&message, seat, 0, &out));
    table.CheckInvariants(seat);
    return out.Drain();
  }
  static Body TopK() { return TopKRequest{Matrix(1, 4), 3, {}, {}}; }
  // The first request of batch number `number`.
  Body Embed(uint32_t number) const {
    EmbedRequest embed{
        {0, number / seat.config.train.unit_batches, number % seat.config.train.unit_batches},
        true,
        {}};
    for (uint32_t i = 0; i < seat.config.train.batch; ++i) embed.features.EndRow();
    return embed;
  }
  static ErrorCode Refusal(const SortedActions& effects) {
    CHECK(effects.work.empty());
    REQUIRE(effects.to_workers.size() == 1);
    return std::get<ErrorReply>(Decode(*effects.to_workers[0].second)->body).code;
  }
};

TEST_CASE_FIXTURE(Fixture, "a request is worked on once, and answered as often as it comes") {
  CHECK(Take(1, TopK()).work.size() == 1);
  CHECK(Take(1, TopK()).work.empty());
  const Asker asker{"peer", kWorker, 1};
  const TopKReply part{{0, 1}, {3}, {0.5f}};
  table.Complete({asker, RequestRound(TopK())}, {part, part}, seat, 0, &out);
  const auto answered = SortedActions(out.Drain()).to_workers;
  REQUIRE(answered.size() == 1);
  CHECK(Take(1, TopK()).to_workers == answered);
  CHECK(table.Senders() == std::vector<Incarnation>{kWorker});
}

TEST_CASE_FIXTURE(Fixture, "requests wait for their step, and go behind its commit") {
  seat.config.train.staleness = 0;
  CHECK(Take(1, Embed(0)).work.empty());  // before the first commit no step is open
  CHECK(Take(2, Embed(1)).work.empty());
  CHECK(table.waiting() == 2);
  table.OnCommit({0}, seat, &out);
  const auto work = SortedActions(out.Drain()).work;
  REQUIRE(work.size() == 2);
  CHECK(*work[0].request() == Body{CommitSteps{0}});
  CHECK(*work[1].request() == testing::Ticketed(Embed(0), kWorker));
  CHECK(table.committed() == 0);
  // A plan switch ends the wait of the others.
  table.RefuseWaiting(2, 0, &out);
  CHECK(Refusal(SortedActions(out.Drain())) == ErrorCode::kStalePlan);
  CHECK(table.waiting() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a dropped worker is fenced off, and nothing of it is kept") {
  seat.config.train.staleness = 0;
  CHECK(Take(1, Embed(0)).work.empty());
  table.DropWorker(kWorker, &out);
  CHECK(SortedActions(out.Drain()).work.size() == 1);
  CHECK(table.waiting() == 0);
  CHECK(table.Senders().empty());
  CHECK(Refusal(Take(1, Embed(0))) == ErrorCode::kFenced);
}

// What the reply to the only job of `taken` says.
uint64_t ReceiptIn(Fixture* f, const SortedActions& taken, const Body& request, const Body& part) {
  REQUIRE(taken.work.size() == 1);
  const auto finished = [&] {
    (void)f->out.Add({taken.work[0].job_id, 0, part});
    return f->out.Add({taken.work[0].job_id, 1, part});
  }();
  REQUIRE(finished);
  f->table.Complete(std::get<PeerRequest>(finished->purpose), {part, part}, f->seat, 0, &f->out);
  const auto replies = SortedActions(f->out.Drain()).to_workers;
  REQUIRE(replies.size() == 1);
  CAPTURE(BodyName(request));
  return Decode(*replies[0].second)->envelope.receipt;
}

TEST_CASE_FIXTURE(Fixture, "nothing is kept of a batch that begins without its own ticket") {
  const Body none = Embed(0);
  Body others = testing::Ticketed(none, {6}), another_batch = testing::Ticketed(none, kWorker);
  std::get<EmbedRequest>(another_batch).batch.unit++;
  for (const Body& request : {none, others, another_batch}) {
    CHECK(Refusal(TakeAsIs(1, request)) == ErrorCode::kRefused);
  }
  // A thousand made-up workers, who also send what goes on with a batch.
  for (uint64_t worker = 1000; worker < 2000; ++worker) {
    CHECK(Refusal(TakeAsIs(1, none, {worker})) == ErrorCode::kRefused);
    CHECK(Refusal(TakeAsIs(2, GradientPush{}, {worker})) == ErrorCode::kUnknownBatch);
    CHECK(Refusal(TakeAsIs(3, EmbedPush{{}, {}, std::get<EmbedRequest>(none)}, {worker})) ==
          ErrorCode::kUnknownBatch);
  }
  CHECK(table.Senders().empty());
  CHECK(table.bytes() == 0);
  CHECK(Take(1, none).work.size() == 1);
  CHECK(TakeAsIs(2, GradientPush{}).work.size() == 1);
  CHECK(table.Senders() == std::vector<Incarnation>{kWorker});
}

TEST_CASE_FIXTURE(Fixture, "the last request of a batch has a receipt by the plan in force") {
  const BatchId batch{0, 1, 2};
  const auto receipt = [&](LeaseKind kind) {
    return ReceiptOf(testing::kReceiptKey, kSelf, kWorker, seat.plan.version, kind, batch,
                     kind == LeaseKind::kTrain ? kUnknownLossPart : 0);
  };
  (void)Take(1, Embed(0));
  const EmbedPush push{batch, Matrix(1, 4)};
  const GradientPush gradient{batch, {0.0f}};
  const GradientReply partial{Matrix(1, 4)};
  SUBCASE("with both layers") {
    CHECK(ReceiptIn(this, Take(2, gradient), gradient, partial) == 0);
    CHECK(ReceiptIn(this, Take(3, push), push, Ack{}) == receipt(LeaseKind::kTrain));
    seat.plan.version = 2;
    CHECK(ReceiptIn(this, Take(4, push), push, Ack{}) == receipt(LeaseKind::kTrain));
  }
  SUBCASE("a push that carries the next batch has the receipt of its own") {
    EmbedPush both = push;
    both.next = std::get<EmbedRequest>(Embed(1));
    CHECK(ReceiptIn(this, Take(2, both), both, EmbedReply{Matrix(10, 4)}) ==
          receipt(LeaseKind::kTrain));
  }
  SUBCASE("an error has none") {
    CHECK(ReceiptIn(this, Take(2, push), push, ErrorReply{ErrorCode::kUnknownBatch, ""}) == 0);
  }
  SUBCASE("without input rows") {
    seat.config.cluster.input_slots = 4;  // those of the other server
    std::ranges::reverse(seat.plan.slot_owner);
    CHECK(ReceiptIn(this, Take(2, gradient), gradient, partial) == receipt(LeaseKind::kTrain));
    CHECK(ReceiptIn(this, Take(3, push), push, Ack{}) == 0);
    // The plan has changed when the executors are done; the worker still reports by the old one.
    const uint64_t before = receipt(LeaseKind::kTrain);
    const auto taken = Take(4, gradient);
    seat.plan.version = 2;
    std::ranges::reverse(seat.plan.slot_owner);
    CHECK(ReceiptIn(this, taken, gradient, partial) == before);
  }
  SUBCASE("an evaluation") {
    TopKRequest top = std::get<TopKRequest>(TopK());
    top.batch = batch;
    CHECK(ReceiptIn(this, Take(2, top), top, TopKReply{{0, 1}, {3}, {0.5f}}) ==
          receipt(LeaseKind::kEvaluate));
  }
}

TEST_CASE_FIXTURE(Fixture, "only so many requests are kept for a plan to come") {
  for (size_t n = 0; n < RequestTable::kMaxEarly; ++n) {
    REQUIRE(table.KeepEarly({"peer", {{}, TopK()}, 0}).empty());
  }
  CHECK(table.KeepEarly({"peer", {{}, TopK()}, 0}).size() == 1);
  // Another sender takes a place of the one that has them all.
  const auto dropped = table.KeepEarly({"other", {{{}, kOther}, TopK()}, 0});
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0].peer == "peer");
  CHECK(table.TakeEarly().size() == RequestTable::kMaxEarly);
  CHECK(table.KeepEarly({"peer", {{}, TopK()}, 0}).empty());
}

TEST_CASE_FIXTURE(Fixture, "requests for a plan to come are bounded in bytes") {
  size_t kept = 0;
  for (int n = 0; n < 60; ++n) {  // of 8 MB each
    kept += table.KeepEarly({"peer", {{}, TopKRequest{Matrix(1024, 2048), 3, {}, {}}}, 0}).empty();
  }
  CHECK(kept == 7);
  CHECK(table.bytes() <= RequestLimits().queue);
}

TEST_CASE_FIXTURE(Fixture, "one sender fills a part of the queue for a plan to come") {
  RequestLimits limits;
  limits.queue = uint64_t{256} << 20;
  limits.early = uint64_t{32} << 20;
  RequestTable large(limits);
  const auto keeps = [&](uint64_t sender) {  // 8 MB
    const TopKRequest request{Matrix(1024, 2048), 3, {}, {}};
    return large.KeepEarly({"peer", {{{}, {sender}}, request}, 0}).empty();
  };
  size_t kept = 0;
  for (int n = 0; n < 10; ++n) kept += keeps(1);
  CHECK(kept == 3);
  CHECK(keeps(2));
}

TEST_CASE_FIXTURE(Fixture, "what servers pull for a plan to come takes no worker's place") {
  for (uint64_t server = 0; server <= RequestTable::kMaxEarly; ++server) {
    const bool kept = table.KeepEarly({"peer", {{{}, {server}}, SlotPull{}}, 0}).empty();
    CHECK(kept == (server < RequestTable::kMaxEarly));
  }
  CHECK(table.KeepEarly({"peer", {{{}, kWorker}, TopK()}, 0}).empty());
  CHECK(table.TakeEarly().size() == RequestTable::kMaxEarly + 1);
  CHECK(table.bytes() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a request for a plan to come needs a ticket before it is kept") {
  const auto why = [&](Body request, Incarnation sender = kWorker) -> std::optional<ErrorCode> {
    Message message{{{}, sender}, std::move(request)};
    const auto error = table.WhyNotKept(&message, seat, &out);
    return error ? std::optional(error->code) : std::nullopt;
  };
  CHECK(why(Embed(0)) == ErrorCode::kRefused);
  CHECK(why(testing::Ticketed(Embed(0), {6})) == ErrorCode::kRefused);
  CHECK(why(GradientPush{}) == ErrorCode::kUnknownBatch);
  CHECK_FALSE(why(testing::Ticketed(Embed(0), kWorker)));
  // Later requests of a batch are kept behind its first one.
  REQUIRE(
      table.KeepEarly({"peer", {{{}, kWorker}, testing::Ticketed(Embed(0), kWorker)}, 0}).empty());
  CHECK_FALSE(why(GradientPush{}));
  CHECK(why(GradientPush{}, {6}) == ErrorCode::kUnknownBatch);
  (void)table.TakeEarly();
  // A push is kept without its next batch, which has no ticket.
  (void)Take(1, Embed(0));
  Message push{{{}, kWorker}, EmbedPush{{}, Matrix(1, 4), std::get<EmbedRequest>(Embed(1))}};
  CHECK_FALSE(table.WhyNotKept(&push, seat, &out));
  CHECK_FALSE(std::get<EmbedPush>(push.body).next);
}

TEST_CASE_FIXTURE(Fixture, "an evaluation ranks few neurons") {
  CHECK(Take(1, TopKRequest{Matrix(1, 4), RequestTable::kMostRanked, {}, {}}).work.size() == 1);
  CHECK(Refusal(Take(2, TopKRequest{Matrix(1, 4), 10'000, {}, {}})) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "a sender that is silent for long is dropped, but not fenced off") {
  CHECK(Take(1, TopK()).work.size() == 1);
  table.DropSilent(1'000, &out);
  CHECK(SortedActions(out.Drain()).work.empty());  // a request is in progress
  const TopKReply part{{0, 1}, {3}, {0.5f}};
  table.Complete({Asker{"peer", kWorker, 1, {}, 0, 1}, RequestRound(TopK())}, {part, part}, seat, 0,
                 &out);
  (void)out.Drain();
  table.DropSilent(0, &out);  // it was heard at 0
  CHECK(table.Senders().size() == 1);
  table.DropSilent(1'000, &out);
  const auto work = SortedActions(out.Drain()).work;
  REQUIRE(work.size() == 1);
  CHECK(*work[0].request() == Body{DropBatches{kWorker}});
  CHECK(table.Senders().empty());
  CHECK(Take(2, TopK()).work.size() == 1);
}

}  // namespace
}  // namespace dslide::request_table_test
