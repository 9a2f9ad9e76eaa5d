#include "server/gate/loss_book.h"

#include <cmath>

#include "tests/server/support/part_fixture.h"

namespace dslide::loss_book_test {
namespace {

constexpr BatchId kBatch{1, 2, 3};

struct Fixture : PartFixture {
  // A query of three samples; the last one has no label.
  static ActiveQuery Query() {
    ActiveQuery query;
    query.batch = kBatch;
    query.label_totals = {1, 2, 0};
    return query;
  }
  static ActiveReply Reply(std::vector<float> log_sums, std::vector<float> targets) {
    ActiveReply reply;
    reply.sum_exp.assign(log_sums.size(), 1);
    reply.max = std::move(log_sums);
    reply.target_logit = std::move(targets);
    return reply;
  }

  LossBook book;
};

TEST_CASE_FIXTURE(Fixture, "losses: the parts of all servers add up to the loss of the batch") {
  ActiveQuery query = Query();
  query.weights = {2, 0.5f, 7};
  const std::vector<float> log_z = {3, 4, 5};
  // This server is the second of the plan: log Z is in the first one's part.
  ServerSeat first = seat;
  first.index = 0;
  LossBook other;
  book.OnReply(kWorker, query, Reply({1, 1, 1}, {0.5f, 0.25f, 9}), seat);
  other.OnReply(kWorker, query, Reply({2, 2, 2}, {1, -1, 9}), first);
  CHECK(*book.PartOf(kWorker, kBatch) == doctest::Approx(-(2 * 0.5 + 0.5 * 0.25)));
  CHECK_FALSE(other.PartOf(kWorker, kBatch));  // the worker has not told log Z yet
  for (LossBook* of : {&book, &other}) of->OnPush(kWorker, {kBatch, log_z});
  const double loss = 2 * (3 - 0.5 - 1) + 0.5 * (4 - 0.25 + 1);
  CHECK(*book.PartOf(kWorker, kBatch) + *other.PartOf(kWorker, kBatch) == doctest::Approx(loss));
  // A push that comes again counts once.
  other.OnPush(kWorker, {kBatch, log_z});
  CHECK(*book.PartOf(kWorker, kBatch) + *other.PartOf(kWorker, kBatch) == doctest::Approx(loss));
}

TEST_CASE_FIXTURE(Fixture, "losses: a server that has all neurons knows the whole loss at once") {
  ActiveQuery query = Query();
  query.finish = true;
  book.OnReply(kWorker, query, Reply({3, 4, 5}, {1, 2, 9}), seat);
  CHECK(*book.PartOf(kWorker, kBatch) == doctest::Approx((3 - 1) + (4 - 2)));
}

TEST_CASE_FIXTURE(Fixture, "losses: the sigmoid loss of a part is complete, and has all samples") {
  ActiveReply reply = Reply({0, 0, 0}, {0, 0, 0});
  reply.loss = {1, 2, 4};
  book.OnReply(kWorker, Query(), reply, seat);
  CHECK(*book.PartOf(kWorker, kBatch) == doctest::Approx(7));
}

TEST_CASE_FIXTURE(Fixture, "losses: an unknown part is not a number") {
  CHECK_FALSE(book.PartOf(kWorker, kBatch));
  book.OnPush(kWorker, {kBatch, {1, 2, 3}});
  CHECK_FALSE(book.PartOf(kWorker, kBatch));
  book.OnReply(kWorker, Query(), Reply({1, 1, 1}, {INFINITY, 0, 0}), seat);
  CHECK_FALSE(book.PartOf(kWorker, kBatch));
  book.Forget(kWorker, kBatch);
  CHECK(book.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "losses: a worker that is dropped takes its own along, and no others") {
  const ActiveReply reply = Reply({1, 1, 1}, {0, 0, 0});
  for (const Incarnation worker : {Incarnation{4}, kWorker, Incarnation{6}}) {
    book.OnReply(worker, Query(), reply, seat);
  }
  book.DropWorker(kWorker);
  CHECK(book.size() == 2);
  CHECK_FALSE(book.PartOf(kWorker, kBatch));
  CHECK(book.PartOf({4}, kBatch));
  CHECK(book.PartOf({6}, kBatch));
}

TEST_CASE_FIXTURE(Fixture, "losses: the batches that began first are forgotten") {
  const ActiveReply reply = Reply({1, 1, 1}, {0, 0, 0});
  ActiveQuery query = Query();
  for (uint32_t i = 0; i <= LossBook::kMostBatches; ++i) {
    query.batch.index = i;
    book.OnReply(kWorker, query, reply, seat);
  }
  CHECK(book.size() == LossBook::kMostBatches);
  query.batch.index = 0;
  CHECK_FALSE(book.PartOf(kWorker, query.batch));
}

}  // namespace
}  // namespace dslide::loss_book_test
