#include "common/base/mutex.h"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace dslide::mutex_test {
namespace {

TEST_CASE("mutex: one thread at a time") {
  struct {
    Mutex mutex;
    int value DSLIDE_GUARDED_BY(mutex) = 0;
  } count;
  constexpr int kEach = 50000;
  const auto add = [&] {
    for (int i = 0; i < kEach; ++i) {
      const MutexLock lock(count.mutex);
      ++count.value;
    }
  };
  { const std::jthread first(add), second(add); }
  const MutexLock lock(count.mutex);
  CHECK(count.value == 2 * kEach);
}

// Hands numbers from one thread to another, one at a time.
class Slot {
 public:
  void Put(int number) {
    MutexLock lock(mutex_);
    while (number_) changed_.Wait(lock);
    number_ = number;
    changed_.NotifyAll();
  }
  int Take() {
    MutexLock lock(mutex_);
    while (!number_) changed_.Wait(lock);
    const int number = *number_;
    number_.reset();
    changed_.NotifyAll();
    return number;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::optional<int> number_ DSLIDE_GUARDED_BY(mutex_);
};

TEST_CASE("mutex: a condition variable wakes the thread that waits") {
  constexpr int kNumbers = 1000;
  Slot slot;
  const std::jthread producer([&] {
    for (int i = 0; i < kNumbers; ++i) slot.Put(i);
  });
  bool in_order = true;
  for (int i = 0; i < kNumbers; ++i) in_order &= slot.Take() == i;
  CHECK(in_order);
}

TEST_CASE("mutex: WaitUntil ends at its time, and Unlock unlocks") {
  Mutex mutex;
  ConditionVariable changed;
  MutexLock lock(mutex);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (changed.WaitUntil(lock, end)) {
  }
  CHECK(std::chrono::steady_clock::now() >= end);
  lock.Unlock();
  const MutexLock other(mutex);
}

}  // namespace
}  // namespace dslide::mutex_test
