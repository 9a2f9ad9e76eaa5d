// What a server keeps of executions of a batch, and what it reports.
#include "server/core/audit_book.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

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

// What a report says of a worker; 0: nothing.
uint64_t OutputOf(const AuditReport& report, Incarnation worker) {
  const auto found = std::ranges::find(report.workers, worker.value);
  return found == report.workers.end() ? 0 : report.digests[found - report.workers.begin()];
}
uint64_t InputOf(const AuditReport& report, Incarnation worker) {
  const auto found = std::ranges::find(report.workers, worker.value);
  return found == report.workers.end() ? 0 : report.input_digests[found - report.workers.begin()];
}
bool Agree(const AuditReport& report, Incarnation a, Incarnation b) {
  return OutputOf(report, a) != 0 && InputOf(report, a) != 0 &&
         OutputOf(report, a) == OutputOf(report, b) && InputOf(report, a) == InputOf(report, b);
}

TEST_CASE("audit book: nothing is reported of a batch that one worker trains") {
  AuditBook book;
  CHECK_FALSE(Batch().Send(kAlice, &book).has_value());
  CHECK(book.batches() == 1);
  CHECK(book.under_way() == 0);
  book.Forget([](const BatchId& batch) { return batch == kBatch; });
  CHECK(book.batches() == 0);
}

TEST_CASE("audit book: the same numbers have one digest, any other number another") {
  AuditBook book;
  const Batch honest;
  CHECK_FALSE(honest.Send(kAlice, &book).has_value());
  const auto same = honest.Send(kBob, &book);
  REQUIRE(same.has_value());
  CHECK(same->batch == kBatch);
  CHECK(same->workers == std::vector<uint64_t>{1, 2});
  CHECK(Agree(*same, kAlice, kBob));
  CHECK(same->output_counts == kAlice.value);
  CHECK(same->input_counts == kAlice.value);

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
    const Incarnation liar{10 + i};
    const auto report = lies[i].Send(liar, &book);
    REQUIRE(report.has_value());
    REQUIRE(report->digests.size() == 3 + i);
    CHECK((OutputOf(*report, liar) == OutputOf(*report, kAlice)) == (i >= 7));
    CHECK((InputOf(*report, liar) == InputOf(*report, kAlice)) == (i >= 2 && i < 7));
    CHECK(report->output_counts == kAlice.value);
  }
}

TEST_CASE("audit book: another machine's logarithm is the same") {
  AuditBook book;
  Batch batch;
  CHECK_FALSE(batch.Send(kAlice, &book).has_value());
  batch.push.log_normaliser[0] = std::nextafter(batch.push.log_normaliser[0], 9.0f);
  const auto report = batch.Send(kBob, &book);
  REQUIRE(report.has_value());
  CHECK(Agree(*report, kAlice, kBob));
}

TEST_CASE("audit book: what a worker pushed first is what it is judged by") {
  AuditBook book;
  Batch lie;
  SUBCASE("a whole batch") {
    lie.end.gradient.data[0] = 1;
    CHECK_FALSE(lie.Send(kAlice, &book).has_value());
  }
  SUBCASE("up to its GradientPush: that is in the sums") {
    lie.query.hidden.data[0] = -99;
    book.Note(kAlice, lie.embed);
    book.Note(kAlice, lie.query);
    book.Note(kAlice, lie.push);
  }
  SUBCASE("up to its EmbedPush") {
    lie.embed.features.values[0] = 99;
    lie.embed.alone = true;
    book.Note(kAlice, lie.embed);
    book.Note(kAlice, lie.end);
  }
  CHECK_FALSE(Batch().Send(kAlice, &book).has_value());
  const auto report = Batch().Send(kBob, &book);
  REQUIRE(report.has_value());
  CHECK(report->workers == std::vector<uint64_t>{1, 2});
  CHECK_FALSE(Agree(*report, kAlice, kBob));
  CHECK(report->output_counts == kAlice.value);
  CHECK(report->input_counts == kAlice.value);
}

TEST_CASE("audit book: a lie that was pushed and never ended is in the report") {
  AuditBook book;
  Batch lie;
  lie.query.hidden.data[0] = -99;
  book.Note(kCarol, lie.embed);
  book.Note(kCarol, lie.query);
  book.Note(kCarol, lie.push);
  const auto first = Batch().Send(kAlice, &book);
  REQUIRE(first.has_value());
  const auto report = Batch().Send(kBob, &book);
  REQUIRE(report.has_value());
  CHECK(Agree(*report, kAlice, kBob));
  CHECK(report->output_counts == kCarol.value);
  CHECK(OutputOf(*report, kCarol) != OutputOf(*report, kAlice));
  CHECK(InputOf(*report, kCarol) == 0);
  CHECK(report->input_counts == kAlice.value);
}

TEST_CASE("audit book: what executors refuse, all or some, is no honest work") {
  AuditBook book;
  const Batch honest;
  CHECK_FALSE(honest.Send(kAlice, &book).has_value());
  SUBCASE("a batch that was carried and not begun changes nothing of the one under way") {
    Batch lie;
    lie.embed.features.values[0] = 99;
    book.Note(kBob, lie.embed);
    EmbedPush push = honest.end;
    push.batch.index = 7;
    push.next = honest.embed;
    book.Note(kBob, push, {true, false});
  }
  SUBCASE("some executors hold something else") { book.Note(kBob, honest.embed, {false, true}); }
  book.Note(kBob, honest.query);
  book.Note(kBob, honest.push);
  const auto report = book.Note(kBob, honest.end);
  REQUIRE(report.has_value());
  CHECK(OutputOf(*report, kBob) != OutputOf(*report, kAlice));
  CHECK(InputOf(*report, kBob) != InputOf(*report, kAlice));
}

TEST_CASE("audit book: a worker that trains a batch once more has it reported once more") {
  AuditBook book;
  CHECK_FALSE(Batch().Send(kAlice, &book).has_value());
  const auto once = Batch().Send(kBob, &book);
  REQUIRE(once.has_value());
  CHECK(Batch().Send(kBob, &book) == once);
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
  const auto report = send(kBob);
  REQUIRE(report.has_value());
  CHECK(OutputOf(*report, kAlice) == OutputOf(*report, kBob));
  CHECK(report->input_digests == std::vector<uint64_t>{0, 0});
  CHECK(report->input_counts == 0);
}

TEST_CASE("audit book: what others begin and push drops no evidence") {
  AuditBook book;
  Batch lie;
  lie.end.gradient.data[0] = 1;
  CHECK_FALSE(lie.Send(kCarol, &book).has_value());
  for (uint32_t i = 0; i < 5000; ++i) {
    EmbedRequest embed = Batch().embed;
    embed.batch.index = i + 2;
    book.Note(kCarol, embed);
  }
  CHECK(book.under_way() <= 128);
  for (uint64_t i = 0; i < 200; ++i) (void)Batch().Send({100 + i}, &book);
  const auto report = Batch().Send(kBob, &book);
  REQUIRE(report.has_value());
  CHECK(report->workers.size() == AuditBook::kMostOfBatch);
  CHECK(report->output_counts == kCarol.value);
  CHECK(InputOf(*report, kCarol) != 0);
  CHECK(InputOf(*report, kCarol) != InputOf(*report, kBob));
}

}  // namespace
}  // namespace dslide::audit_book_test
