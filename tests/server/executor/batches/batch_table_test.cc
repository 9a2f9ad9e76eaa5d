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

TEST_CASE("an epoch that is over has no batches in flight, unless epochs overlap") {
  for (const bool overlap : {false, true}) {
    BatchTable table(overlap);
    Begin(&table, Key(9, 0), 1);
    Begin(&table, Key(0, 1, kOther), 1);
    CHECK(table.size() == (overlap ? 2 : 1));
    Begin(&table, Key(8, 0), 1);  // late
    CHECK(table.Find(Key(0, 1, kOther), BatchStage::kEmbedded));
  }
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
