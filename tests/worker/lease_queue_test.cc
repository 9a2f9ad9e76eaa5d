#include "worker/lease_queue.h"

#include <doctest/doctest.h>

namespace dslide::lease_queue_test {
namespace {

LeasedBatch Batch(uint64_t number, uint32_t index = 0) {
  LeasedBatch batch;
  batch.number = number;
  batch.batch.index = index;
  return batch;
}

TEST_CASE(
    "lease queue: batches come in the order of their numbers, equal ones as they were added") {
  LeaseQueue queue;
  queue.Add(Batch(7, 1));
  queue.Add(Batch(3, 2));
  queue.Add(Batch(7, 3));
  REQUIRE(queue.size() == 3);
  CHECK(queue.front().batch.index == 2);
  CHECK(queue.Pop().batch.index == 2);
  CHECK(queue.Pop().batch.index == 1);
  CHECK(queue.Pop().batch.index == 3);
  CHECK(queue.empty());
}

TEST_CASE("lease queue: a batch that failed waits longer each time, and is dropped in the end") {
  LeaseQueue queue;
  queue.Add(Batch(1));
  int64_t now_us = 1000;
  for (const int64_t aside_us : {300'000, 1'200'000, 4'800'000, 19'200'000}) {
    REQUIRE(queue.SetAside(queue.Pop(), now_us));
    queue.ReturnDue(now_us + aside_us - 1);
    CHECK(queue.empty());
    queue.ReturnDue(now_us += aside_us);
    REQUIRE(queue.size() == 1);
  }
  CHECK_FALSE(queue.SetAside(queue.Pop(), now_us));
  queue.ReturnAll();
  CHECK(queue.empty());
}

TEST_CASE("lease queue: all batches that were set aside return at once with a new plan") {
  LeaseQueue queue;
  REQUIRE(queue.SetAside(Batch(2), 0));
  REQUIRE(queue.SetAside(Batch(1), 0));
  queue.ReturnAll();
  CHECK(queue.size() == 2);
  CHECK(queue.front().number == 1);
}

TEST_CASE("lease queue: one request for a lease is under way at a time") {
  LeaseQueue queue;
  REQUIRE(queue.MayAsk(0));
  queue.Asked(10);
  CHECK_FALSE(queue.MayAsk(1000));
  SUBCASE("it is answered: the next one may have to wait") {
    queue.Answered(500);
    CHECK_FALSE(queue.MayAsk(499));
    CHECK(queue.MayAsk(500));
  }
  SUBCASE("it is lost") {
    queue.ForgetLostRequest(109, 100);
    CHECK_FALSE(queue.MayAsk(109));
    queue.ForgetLostRequest(110, 100);
    CHECK(queue.MayAsk(110));
  }
}

}  // namespace
}  // namespace dslide::lease_queue_test
