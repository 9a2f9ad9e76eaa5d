#include "server/core/request_table.h"

#include "tests/server/support/part_fixture.h"

namespace dslide::request_table_test {
namespace {

struct Fixture : PartFixture {
  RequestTable table;

  ServerEffects Take(uint64_t sequence, Body body, Incarnation worker = kWorker) {
    table.Take("peer", {{{}, worker, sequence, 0, 1}, std::move(body)}, seat, 0, &out);
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
  static ErrorCode Refusal(const ServerEffects& effects) {
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
  const auto answered = out.Drain().to_workers;
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
  const auto work = out.Drain().work;
  REQUIRE(work.size() == 2);
  CHECK(*work[0].request() == Body{CommitSteps{0}});
  CHECK(*work[1].request() == Embed(0));
  CHECK(table.committed() == 0);
  // A plan switch ends the wait of the others.
  table.RefuseWaiting(2, 0, &out);
  CHECK(Refusal(out.Drain()) == ErrorCode::kStalePlan);
  CHECK(table.waiting() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a dropped worker is fenced off, and nothing of it is kept") {
  seat.config.train.staleness = 0;
  CHECK(Take(1, Embed(0)).work.empty());
  table.DropWorker(kWorker, &out);
  CHECK(out.Drain().work.size() == 1);
  CHECK(table.waiting() == 0);
  CHECK(table.Senders().empty());
  CHECK(Refusal(Take(1, Embed(0))) == ErrorCode::kFenced);
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

TEST_CASE_FIXTURE(Fixture, "an evaluation ranks few neurons") {
  CHECK(Take(1, TopKRequest{Matrix(1, 4), RequestTable::kMostRanked, {}, {}}).work.size() == 1);
  CHECK(Refusal(Take(2, TopKRequest{Matrix(1, 4), 10'000, {}, {}})) == ErrorCode::kRefused);
}

TEST_CASE_FIXTURE(Fixture, "a sender that is silent for long is dropped, but not fenced off") {
  CHECK(Take(1, TopK()).work.size() == 1);
  table.DropSilent(1'000, &out);
  CHECK(out.Drain().work.empty());  // a request is in progress
  const TopKReply part{{0, 1}, {3}, {0.5f}};
  table.Complete({Asker{"peer", kWorker, 1, {}, 0, 1}, RequestRound(TopK())}, {part, part}, seat, 0,
                 &out);
  (void)out.Drain();
  table.DropSilent(0, &out);  // it was heard at 0
  CHECK(table.Senders().size() == 1);
  table.DropSilent(1'000, &out);
  const auto work = out.Drain().work;
  REQUIRE(work.size() == 1);
  CHECK(*work[0].request() == Body{DropBatches{kWorker}});
  CHECK(table.Senders().empty());
  CHECK(Take(2, TopK()).work.size() == 1);
}

}  // namespace
}  // namespace dslide::request_table_test
