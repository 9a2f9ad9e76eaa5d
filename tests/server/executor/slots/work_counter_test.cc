#include "server/executor/slots/work_counter.h"

#include <doctest/doctest.h>

#include "common/math/kernels.h"
#include "server/model/input_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide::work_counter_test {
namespace {

struct Fixture {
  Config config = SmallConfig(20, 10, 4);  // 8 slots, all neurons are active
  InputLayer input{config, AllSlots(config), Purpose::kTraining, BestKernels()};
  OutputLayer output{config, AllSlots(config), Purpose::kTraining, BestKernels()};
  SlotLoad load{config.cluster};
  WorkCounter counter{&load, input.layer(), output};
};

TEST_CASE_FIXTURE(Fixture, "what is done for a row counts for its slot") {
  const uint32_t row = input.layer().map().LocalRow({3}, 1);
  counter.CountInput(row, true);
  counter.CountInput(row, false);
  counter.CountUpdate(output.layer(), output.layer().map().LocalRow({3}, 0));
  CHECK(load.Of({3}).input_rows == 2);
  CHECK(load.Of({3}).updated == 2);
  CHECK(load.Of({2}).input_rows == 0);
}

TEST_CASE_FIXTURE(Fixture, "a query counts its active rows, each with every sample") {
  ActiveQuery query;
  query.hidden = Matrix(3, 4);
  query.labels.offsets = {0, 0, 0, 0};
  query.label_totals = {0, 0, 0};
  OutputBatch batch;
  (void)output.Query(query, {1}, &batch);
  counter.CountQuery(batch);
  CHECK(load.Of({0}).columns == 2);  // neurons 0 and 8
  CHECK(load.Of({0}).scores == 2 * 3);
  CHECK(load.Of({7}).columns == 1);
  CHECK(load.Of({7}).retrieved == 0);  // there are no buckets
}

TEST_CASE_FIXTURE(Fixture, "an exact ranking counts every neuron with every sample") {
  counter.CountScan(5, false);
  CHECK(load.Of({1}).scanned == 2 * 5);
  CHECK(load.Of({5}).scanned == 5);
  counter.CountScan(10, true);
  CHECK(load.Of({1}).scanned == 2 * 5 + 2 * 3);
  CHECK(load.Of({5}).scanned == 5 + 3);
  counter.CountTaken();
  CHECK(load.Take(AllSlots(config)).batches == 1);
}

}  // namespace
}  // namespace dslide::work_counter_test
