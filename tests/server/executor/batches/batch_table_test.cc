#include "server/executor/batches/batch_table.h"

#include <doctest/doctest.h>

namespace dslide::batch_table_test {
namespace {

constexpr Incarnation kWorker{3}, kOther{4};

BatchKey Key(uint32_t index, uint32_t epoch = 0, Incarnation worker = kWorker) {
  return {worker, {epoch, 0, index}};
}

OpenBatch& Begin(BatchTable* table, const BatchKey& key, uint32_t samples) {
  return table->Begin(key, samples, false);
}

TEST_CASE("a batch is found at its stage, until it ends") {
  BatchTable table(false);
  OpenBatch& batch = Begin(&table, Key(7), 5);
  CHECK(batch.samples == 5);
  CHECK(table.Find(Key(7), BatchStage::kEmbedded) == &batch);
  CHECK(table.Find(Key(7), BatchStage::kQueried) == nullptr);
  CHECK(table.Find(Key(7, 0, kOther), BatchStage::kEmbedded) == nullptr);
  batch.stage = BatchStage::kPushed;
  CHECK(table.Find(Key(7), BatchStage::kPushed) == &batch);
  table.End(Key(7));
  CHECK(table.size() == 0);
  CHECK(table.Find(Key(7), BatchStage::kPushed) == nullptr);
  CHECK(&Begin(&table, Key(8), 1) == &batch);  // its buffers are used again
  table.CheckInvariants();
}

TEST_CASE("a worker that begins a batch again starts it over") {
  BatchTable table(false);
  Begin(&table, Key(7), 5).stage = BatchStage::kQueried;
  Begin(&table, Key(7), 6);
  CHECK(table.size() == 1);
  REQUIRE(table.Find(Key(7), BatchStage::kEmbedded));
  CHECK(table.Find(Key(7), BatchStage::kEmbedded)->samples == 6);
}

TEST_CASE("a worker's lowest batch makes room for one too many") {
  BatchTable table(false);
  Begin(&table, Key(0, 0, kOther), 1);
  for (uint32_t i = 0; i <= kMaxBatchesOfWorker; ++i) Begin(&table, Key(i), 1);
  CHECK(table.size() == kMaxBatchesOfWorker + 1);
  CHECK(table.Find(Key(0), BatchStage::kEmbedded) == nullptr);
  CHECK(table.Find(Key(1), BatchStage::kEmbedded));
  CHECK(table.Find(Key(0, 0, kOther), BatchStage::kEmbedded));
}

TEST_CASE("the oldest batch makes room when there are too many") {
  BatchTable table(false);
  for (uint32_t i = 0; i <= kMaxBatchesInFlight; ++i) {
    Begin(&table, Key(0, 0, {kMaxBatchesInFlight + 1 - i}), 1);
  }
  CHECK(table.size() == kMaxBatchesInFlight);
  CHECK(table.Find(Key(0, 0, {kMaxBatchesInFlight + 1}), BatchStage::kEmbedded) == nullptr);
  table.CheckInvariants();
}

TEST_CASE("a worker that begins an epoch gives up the one before, unless epochs overlap") {
  for (const bool overlap : {false, true}) {
    BatchTable table(overlap);
    Begin(&table, Key(9, 0), 1);
    Begin(&table, Key(5, 0, kOther), 1);
    Begin(&table, Key(0, 1), 1);
    CHECK(table.size() == (overlap ? 3 : 2));
    CHECK(table.Find(Key(5, 0, kOther), BatchStage::kEmbedded));  // another worker's is its own
    Begin(&table, Key(8, 0), 1);                                  // late
    CHECK(table.Find(Key(0, 1), BatchStage::kEmbedded));
  }
}

TEST_CASE("the worker with the most bytes loses its oldest batch") {
  BatchTable table(false);
  table.set_most_bytes(100'000);
  const auto begin = [&](const BatchKey& key) {
    Begin(&table, key, 1).output.hidden = Matrix(1, 5000);  // 20,000 bytes
  };
  begin(Key(0));
  for (uint32_t i = 1; i < 4; ++i) begin(Key(i, 0, kOther));
  CHECK(table.size() == 4);
  begin(Key(1));
  begin(Key(2));  // makes room
  CHECK(table.Find(Key(1, 0, kOther), BatchStage::kEmbedded) == nullptr);
  for (const uint32_t i : {0, 1, 2}) CHECK(table.Find(Key(i), BatchStage::kEmbedded));
  CHECK(table.MemoryBytes() < 120'000);
}

TEST_CASE("workers that have ended a batch keep theirs while strangers come") {
  BatchTable table(false);
  Begin(&table, Key(0), 1);
  table.End(Key(0));
  for (uint32_t i = 1; i < 9; ++i) Begin(&table, Key(i), 1);
  for (uint32_t i = 0; i < 3 * kMaxBatchesInFlight; ++i) Begin(&table, Key(0, 0, {100 + i}), 1);
  for (uint32_t i = 1; i < 9; ++i) CHECK(table.Find(Key(i), BatchStage::kEmbedded));
  CHECK(table.size() == kMaxBatchesInFlight);
  table.CheckInvariants();
}

TEST_CASE("batches are dropped by worker and by number") {
  BatchTable table(true);
  for (uint32_t i = 0; i < 4; ++i) Begin(&table, Key(i), 1);
  Begin(&table, Key(0, 0, kOther), 1);
  table.DropIf([](const BatchId& batch) { return batch.index < 2; });
  CHECK(table.size() == 2);
  table.DropWorker(kWorker);
  CHECK(table.size() == 0);
}

}  // namespace
}  // namespace dslide::batch_table_test
