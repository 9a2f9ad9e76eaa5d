#include "common/base/bounded_queue.h"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace dslide::bounded_queue_test {
namespace {

constexpr int kDeadlineMs = 10000;

// Whether a poll would wake for the queue now.
bool Readable(const BoundedQueue<int>& queue) {
  pollfd entry{queue.fd(), POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

TEST_CASE("bounded_queue: first in, first out") {
  BoundedQueue<int> queue(3);
  CHECK_FALSE(queue.Pop().has_value());
  CHECK(queue.Push(1));
  CHECK(queue.Push(2));
  CHECK(queue.Pop() == 1);
  CHECK(queue.Push(3));
  CHECK(queue.Pop() == 2);
  CHECK(queue.Pop() == 3);
  CHECK_FALSE(queue.Pop().has_value());
}

TEST_CASE("bounded_queue: a full queue leaves the value with the producer") {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  CHECK(queue.capacity() == 1);
  CHECK(queue.Push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  CHECK_FALSE(queue.Push(std::move(second)));
  REQUIRE(second != nullptr);
  CHECK(**queue.Pop() == 1);
  CHECK(queue.Push(std::move(second)));
  CHECK(**queue.Pop() == 2);
}

TEST_CASE("bounded_queue: the descriptor is readable exactly while there is something to do") {
  BoundedQueue<int> queue(4);
  CHECK_FALSE(Readable(queue));
  for (int round = 0; round < 3; ++round) {
    CHECK(queue.Push(1));
    CHECK(Readable(queue));
    CHECK(queue.Push(2));
    CHECK(queue.Pop() == 1);
    CHECK(Readable(queue));
    CHECK(queue.Pop() == 2);
    CHECK_FALSE(Readable(queue));
    CHECK_FALSE(queue.Pop().has_value());
  }
}

TEST_CASE("bounded_queue: after Close pushes fail and what is there can be popped") {
  BoundedQueue<int> queue(4);
  CHECK(queue.Push(1));
  CHECK_FALSE(queue.closed());
  queue.Close();
  queue.Close();
  CHECK(queue.closed());
  CHECK_FALSE(queue.Push(2));
  CHECK(queue.Wait(0));
  CHECK(queue.Pop() == 1);
  CHECK(Readable(queue));  // so that the consumer looks at closed()
  CHECK_FALSE(queue.Wait(kDeadlineMs));
  CHECK_FALSE(queue.Pop().has_value());
}

TEST_CASE("bounded_queue: CloseAndDrop leaves nothing to pop, and wakes the consumer") {
  for (const int elements : {0, 1, 3}) {
    BoundedQueue<int> queue(4);
    for (int i = 0; i < elements; ++i) CHECK(queue.Push(int{i}));
    queue.CloseAndDrop();
    queue.CloseAndDrop();
    CHECK(queue.closed());
    CHECK_FALSE(queue.Push(2));
    CHECK(Readable(queue));
    CHECK_FALSE(queue.Pop().has_value());
  }
}

TEST_CASE("bounded_queue: Wait returns at its timeout, for a push and for Close") {
  BoundedQueue<int> queue(4);
  CHECK_FALSE(queue.Wait(1));
  {
    std::jthread producer([&] { CHECK(queue.Push(5)); });
    CHECK(queue.Wait(kDeadlineMs));
    CHECK(queue.Pop() == 5);
  }
  std::jthread closer([&] { queue.Close(); });
  CHECK_FALSE(queue.Wait(kDeadlineMs));
  CHECK(queue.closed());
}

TEST_CASE("bounded_queue: many producers lose nothing and keep their own order") {
  constexpr int kProducers = 3;
  constexpr int kEach = 20000;
  BoundedQueue<std::pair<int, int>> queue(64);  // small: producers meet the limit
  std::vector<std::jthread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kEach; ++i) {
        while (!queue.Push({p, i})) std::this_thread::yield();
      }
    });
  }
  std::vector<int> next(kProducers, 0);
  bool in_order = true;
  for (int received = 0; received < kProducers * kEach;) {
    REQUIRE(queue.Wait(kDeadlineMs));
    while (const auto item = queue.Pop()) {
      in_order &= item->second == next[static_cast<size_t>(item->first)]++;
      ++received;
    }
    REQUIRE(queue.size() <= queue.capacity());
  }
  CHECK(in_order);
  CHECK(next == std::vector<int>(kProducers, kEach));
  CHECK_FALSE(queue.Pop().has_value());
}

}  // namespace
}  // namespace dslide::bounded_queue_test
