#include "server/gate/norm_bound.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "common/base/random.h"

namespace dslide::norm_bound_test {
namespace {

// Each has a key of its own.
constexpr Incarnation Of(uint64_t worker) { return {worker << 32}; }

constexpr Incarnation kLiar = Of(66);

struct Fixture {
  NormBound bound;
  uint32_t batches = 0;

  BatchId Next() { return {0, 0, batches++}; }
  // Batches of honest workers, whose largest norms are within a factor of 4.
  void Train(std::initializer_list<uint64_t> workers, int rounds, float scale = 1) {
    Random random(batches);
    for (int n = 0; n < rounds; ++n) {
      for (const uint64_t worker : workers) {
        const float norm = scale * std::exp2(static_cast<float>(random.Next() % 200) / 100);
        REQUIRE(bound.Takes(Of(worker), Next(), norm));
      }
    }
  }
};

TEST_CASE_FIXTURE(Fixture, "nothing is too large at first, or of size 0") {
  CHECK_FALSE(bound.BoundOf(Of(1)));
  CHECK(bound.Takes(Of(1), Next(), 1e30f));
  for (int n = 0; n < 100; ++n) CHECK(bound.Takes(Of(2), Next(), 0));
  CHECK_FALSE(bound.BoundOf(Of(1)));
}

TEST_CASE_FIXTURE(Fixture, "a liar among several is refused, and cannot move a bound") {
  Train({1, 2, 3}, 30);
  const float before = *bound.BoundOf(Of(1));
  CHECK(before >= NormBound::kFactor);
  CHECK(before <= 4 * NormBound::kFactor);
  for (int n = 0; n < 500; ++n) {
    CHECK_FALSE(bound.Takes(kLiar, Next(), 1e17f));
    CHECK_FALSE(bound.Takes(kLiar, Next(), std::numeric_limits<float>::infinity()));
  }
  // Nor by going up or down step by step.
  float norm = 1;
  for (int n = 0; n < 500; ++n) norm *= bound.Takes(kLiar, Next(), norm) ? 1.1f : 1.0f;
  CHECK(norm <= 1.2f * *bound.BoundOf(kLiar));
  for (int n = 0; n < 500; ++n) CHECK(bound.Takes(kLiar, Next(), 1e-20f));
  CHECK(*bound.BoundOf(Of(1)) >= NormBound::kFactor);
  CHECK(*bound.BoundOf(Of(1)) <= 4 * NormBound::kFactor);
  Train({1, 2, 3}, 30);
}

TEST_CASE_FIXTURE(Fixture, "a liar beside one honest worker is refused") {
  Train({1}, 30);
  CHECK_FALSE(bound.Takes(kLiar, Next(), 1e17f));
  for (int n = 0; n < 50; ++n) CHECK(bound.Takes(kLiar, Next(), 1e-20f));
  Train({1}, 30);  // which tiny numbers do not keep out
  CHECK_FALSE(bound.Takes(kLiar, Next(), 1e17f));
}

TEST_CASE_FIXTURE(Fixture, "the only worker is bounded by what it has sent") {
  Train({1}, 30);
  const BatchId batch = Next();
  CHECK_FALSE(bound.Takes(Of(1), batch, 1e17f));
  CHECK_FALSE(bound.Takes(Of(1), batch, 1e17f));
  Train({1}, 1);
  CHECK(bound.Takes(Of(1), batch, 1e17f));  // nobody else can train it
  CHECK(*bound.BoundOf(Of(1)) < 1e3f);      // and it does not count
  CHECK(bound.TakeLies().empty());
}

TEST_CASE_FIXTURE(Fixture, "a batch that two workers send alike is taken") {
  Train({1, 2, 3}, 30);
  const BatchId batch = Next();
  CHECK_FALSE(bound.Takes(Of(1), batch, 5000));
  CHECK_FALSE(bound.Takes(Of(1), batch, 5000));  // the same one does not count
  CHECK_FALSE(bound.Takes(Of(2), batch, 11000));
  CHECK(bound.Takes(Of(3), batch, 5100));
  CHECK(bound.TakeLies().empty());
}

TEST_CASE_FIXTURE(Fixture, "who sent numbers that a second worker does not find has lied") {
  Train({1, 2, 3}, 30);
  const BatchId batch = Next();
  CHECK_FALSE(bound.Takes(kLiar, batch, 1e17f));
  CHECK(bound.TakeLies().empty());
  CHECK(bound.Takes(Of(1), batch, 2));
  CHECK(bound.TakeLies() == std::vector<NormBound::Lie>{{kLiar, batch}});
  CHECK(bound.TakeLies().empty());
  // Somewhat more than a second worker finds later is none.
  const BatchId later = Next();
  const float above = 1.1f * *bound.BoundOf(Of(2));
  CHECK_FALSE(bound.Takes(Of(2), later, above));
  CHECK(bound.Takes(Of(1), later, above / 3));
  CHECK(bound.TakeLies().empty());
}

TEST_CASE_FIXTURE(Fixture, "when all are refused it is the training") {
  Train({1, 2}, 30);
  bool taken = false;
  size_t refused = 0;
  while (!taken && refused < 1000) {
    taken = bound.Takes(Of(1 + refused % 2), Next(), 1e6f);
    refused += taken ? 0 : 1;
  }
  CHECK(refused == NormBound::kOnEnd - 1);
  CHECK_FALSE(bound.BoundOf(Of(1)));
  Train({1, 2}, 30, 1e6f);
}

TEST_CASE_FIXTURE(Fixture, "a run of lies of some is not the training") {
  Train({1, 2}, 30);
  Train({66}, 30);
  for (int n = 0; n < 1000; ++n) CHECK_FALSE(bound.Takes(kLiar, Next(), 1e17f));
}

TEST_CASE("one that is there first with numbers near 0 shuts nobody out") {
  for (const int honest : {1, 2}) {
    NormBound bound(1);
    uint32_t batches = 0;
    for (int n = 0; n < 235; ++n) CHECK(bound.Takes(kLiar, {0, 0, batches++}, 1e-9f));
    for (int n = 0; n < 200; ++n) {
      const Incarnation worker = Of(1 + n % honest);
      CHECK(bound.Takes(worker, {0, 0, batches++}, 140));
      CHECK(bound.Takes(kLiar, {0, 0, batches++}, 1e-9f));
    }
    CHECK_FALSE(bound.Takes(kLiar, {0, 0, batches++}, 1e17f));
  }
}

TEST_CASE_FIXTURE(Fixture, "the only worker is not held to numbers of one that has left") {
  for (int n = 0; n < 235; ++n) CHECK(bound.Takes(kLiar, Next(), 1e-9f));
  bound.Forget(kLiar);
  size_t refused = 0;
  for (int n = 0; n < 100; ++n) {
    const BatchId batch = Next();
    while (!bound.Takes(Of(1), batch, 140)) ++refused;
  }
  CHECK(refused < NormBound::kOnEnd);
}

TEST_CASE_FIXTURE(Fixture, "refusals of most senders are not the senders' fault") {
  Train({66, 67}, 30, 1e-6f);
  size_t refused = 0;
  for (uint64_t n = 0; n < 1000 && refused < 2 * NormBound::kOnEnd; ++n) {
    refused += !bound.Takes(Of(1 + n % 3), Next(), 10);
    (void)bound.Takes(kLiar, Next(), 1e-6f);  // the liar, which has set the bound, continues
    (void)bound.Takes(Of(67), Next(), 1e-6f);
  }
  CHECK(refused < 2 * NormBound::kOnEnd);
  Train({1, 2, 3}, 30, 10);
}

TEST_CASE_FIXTURE(Fixture, "numbers that grow as training goes on are taken") {
  for (int octave = 0; octave < 20; ++octave)
    Train({1, 2, 3}, 40, std::exp2(static_cast<float>(octave)));
}

}  // namespace
}  // namespace dslide::norm_bound_test
