#include "common/run/dense_copies.h"

#include <doctest/doctest.h>

namespace dslide::dense_copies_test {
namespace {

constexpr auto kTrain = LeaseKind::kTrain, kEvaluate = LeaseKind::kEvaluate;
constexpr uint64_t kMost = DenseCopies::kMostBatches;

std::shared_ptr<const DenseWeights> Copy() {
  ModelConfig model;
  model.hidden = 2;
  model.dense = {1};
  return std::make_shared<const DenseWeights>(model, Matrix(DenseRowCount(model), 2));
}

TEST_CASE("dense copies: asynchronous, a copy serves some batches and not for long") {
  TrainConfig train;
  DenseCopies copies;
  CHECK(copies.For({kTrain, 0, 1, 1}, train, false, 0) == nullptr);
  const auto copy = Copy();
  copies.Keep({kTrain, 0, 1, 1}, copy, 100);
  for (uint64_t n = 0; n < kMost; ++n) {
    CHECK(copies.For({kTrain, n, 1, n}, train, false, 100) == copy);
  }
  CHECK(copies.For({kTrain, kMost, 1, kMost}, train, false, 100) == nullptr);
  // While another one is on its way, up to as many again.
  for (uint64_t n = 0; n < kMost; ++n) {
    CHECK(copies.For({kTrain, n, 1, n}, train, true, 100) == copy);
  }
  CHECK(copies.For({kTrain, kMost, 1, kMost}, train, true, 100) == nullptr);
  copies.Keep({kTrain, 0, 1, 1}, copy, 100);
  CHECK(copies.For({kTrain, 0, 1, 1}, train, false, 99 + DenseCopies::kMostAgeUs) == copy);
  CHECK(copies.For({kTrain, 0, 1, 1}, train, false, 100 + DenseCopies::kMostAgeUs) == nullptr);
  CHECK(copies.For({kEvaluate, 0, 1, 1}, train, false, 100) == nullptr);
  copies.Clear();
  CHECK(copies.For({kTrain, 0, 1, 1}, train, false, 100) == nullptr);
}

TEST_CASE(
    "dense copies: synchronous, a copy is of one step, however many batches and however old") {
  TrainConfig train;
  train.staleness = 0;
  DenseCopies copies;
  const auto copy = Copy();
  copies.Keep({kTrain, 7, 1, 1}, copy, 0);
  for (int n = 0; n < 5; ++n)
    CHECK(copies.For({kTrain, 7, 1, 2}, train, false, 1'000'000'000) == copy);
  CHECK(copies.For({kTrain, 8, 1, 1}, train, true, 0) == nullptr);
  CHECK(copies.For({kTrain, 6, 1, 1}, train, true, 0) == nullptr);
}

TEST_CASE("dense copies: an evaluation's copy is of its lease and epoch") {
  const TrainConfig train;
  DenseCopies copies;
  const auto copy = Copy();
  copies.Keep({kEvaluate, 0, 1, 5}, copy, 0);
  for (int n = 0; n < 9; ++n)
    CHECK(copies.For({kEvaluate, 0, 1, 5}, train, false, 9'000'000) == copy);
  CHECK(copies.For({kEvaluate, 0, 1, 6}, train, true, 0) == nullptr);
  CHECK(copies.For({kEvaluate, 0, 2, 5}, train, true, 0) == nullptr);  // ids begin again
  CHECK(copies.For({kTrain, 0, 1, 5}, train, true, 0) == nullptr);
}

}  // namespace
}  // namespace dslide::dense_copies_test
