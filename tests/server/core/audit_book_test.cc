// What a server keeps of executions of a batch, and what it reports.
#include "server/core/audit_book.h"

#include <doctest/doctest.h>

namespace dslide::audit_book_test {
namespace {

constexpr Incarnation kAlice{1}, kBob{2}, kCarol{3};
constexpr BatchId kBatch{0, 0, 1};

// A batch of two samples, as a worker sends it. Each number that it may lie about can be changed.
struct Batch {
  EmbedRequest embed{kBatch, true, {{0, 1, 2}, {4, 7}, {0.5f, 0.25f}}};
  ActiveQuery query;
  GradientPush push{kBatch, {3.0f, 4.0f}};
  EmbedPush end;

  Batch() {
    query.batch = end.batch = kBatch;
    query.hidden = Matrix(2, 2);
    query.hidden.data = {1, 0, 0, 2};
    query.labels = {{0, 1, 2}, {9, 8}, {}};
    query.label_totals = {1, 1};
    end.gradient = Matrix(2, 2);
    end.gradient.data = {0.1f, 0, 0, -0.2f};
  }
  std::optional<AuditReport> Send(Incarnation worker, AuditBook* book) const {
    CHECK_FALSE(book->Note(worker, embed).has_value());
    CHECK_FALSE(book->Note(worker, query).has_value());
    CHECK_FALSE(book->Note(worker, push).has_value());
    return book->Note(worker, end);
  }
};

TEST_CASE("audit book: nothing is reported of a batch that one worker trains") {
  AuditBook book;
  CHECK_FALSE(Batch().Send(kAlice, &book).has_value());
  CHECK(book.size() == 1);
  book.Forget([](const BatchId& batch) { return batch == kBatch; });
  CHECK(book.size() == 0);
}

TEST_CASE("audit book: the same numbers have one digest, any other number another") {
  AuditBook book;
  const Batch honest;
  CHECK_FALSE(honest.Send(kAlice, &book).has_value());
  const auto same = honest.Send(kBob, &book);
  REQUIRE(same.has_value());
  CHECK(same->batch == kBatch);
  CHECK(same->workers == std::vector<uint64_t>{1, 2});
  CHECK(same->digests[0] == same->digests[1]);

  std::vector<Batch> lies(9);
  lies[0].embed.features.values[1] = 0.26f;
  lies[1].embed.features.ids[0] = 5;
  lies[2].query.hidden.data[0] = 1.0001f;
  lies[3].query.labels.ids[1] = 7;
  lies[4].query.label_totals[0] = 2;
  lies[5].query.weights = {1, 2};
  lies[6].push.log_normaliser[1] = 4.1f;
  lies[7].end.gradient.data[3] = 0.2f;
  lies[8].end.gradient.data[1] = -0.0f;
  for (size_t i = 0; i < lies.size(); ++i) {
    CAPTURE(i);
    const auto report = lies[i].Send({10 + i}, &book);
    REQUIRE(report.has_value());
    REQUIRE(report->digests.size() == 3 + i);
    CHECK(report->digests.back() != report->digests[0]);
  }
}

TEST_CASE("audit book: another machine's logarithm is the same") {
  AuditBook book;
  Batch batch;
  CHECK_FALSE(batch.Send(kAlice, &book).has_value());
  batch.push.log_normaliser[0] = std::nextafter(batch.push.log_normaliser[0], 9.0f);
  const auto report = batch.Send(kBob, &book);
  REQUIRE(report.has_value());
  CHECK(report->digests[0] == report->digests[1]);
}

TEST_CASE("audit book: what a worker sent first is what counts") {
  AuditBook book;
  Batch lie;
  lie.end.gradient.data[0] = 1;
  CHECK_FALSE(lie.Send(kAlice, &book).has_value());
  CHECK_FALSE(Batch().Send(kAlice, &book).has_value());
  const auto report = Batch().Send(kBob, &book);
  REQUIRE(report.has_value());
  CHECK(report->workers == std::vector<uint64_t>{1, 2});
  CHECK(report->digests[0] != report->digests[1]);
}

TEST_CASE("audit book: a server of one layer sees a part of the batch") {
  AuditBook book;
  Batch batch;
  batch.query.alone = true;
  const auto send = [&](Incarnation worker) {
    CHECK_FALSE(book.Note(worker, batch.query).has_value());
    return book.Note(worker, batch.push);
  };
  CHECK_FALSE(send(kAlice).has_value());
  CHECK(send(kBob).has_value());
}

TEST_CASE("audit book: what is never ended does not fill it") {
  AuditBook book;
  for (uint32_t i = 0; i < 2 * AuditBook::kMostExecutions; ++i) {
    EmbedRequest embed = Batch().embed;
    embed.batch.index = i;
    (void)book.Note(kCarol, embed);
  }
  CHECK(book.size() == AuditBook::kMostExecutions);
}

}  // namespace
}  // namespace dslide::audit_book_test
