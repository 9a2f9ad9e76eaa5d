// A bounded queue between threads. Its consumer can wait for it and for sockets at the same time.
//
// Any number of producers, one consumer. Overflow policy: Push() on a full queue returns false and
// leaves the value with the producer, who decides (answer "busy", wait for replies, drop); it never
// blocks. fd() is readable while an element is waiting or the queue is closed, so that
// Poller::AddFd(queue.fd()) wakes the consumer. After Close() pushes fail; elements that are in the
// queue can still be popped.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace dslide {

template <typename T>
class BoundedQueue {
 public:
  // REQUIRES capacity > 0. Created at start-up, where a lack of file descriptors is fatal.
  explicit BoundedQueue(size_t capacity)
      : capacity_(capacity), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    DSLIDE_CHECK(capacity > 0);
    DSLIDE_CHECK(event_ >= 0);
  }
  ~BoundedQueue() { close(event_); }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False, with `value` untouched, if the queue is full or closed.
  bool Push(T&& value) {
    const MutexLock lock(mutex_);
    if (closed_ || items_.size() == capacity_) return false;
    items_.push_back(std::move(value));
    if (items_.size() == 1) Raise();
    return true;
  }

  // The oldest element, or nullopt if there is none now.
  std::optional<T> Pop() {
    const MutexLock lock(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> value(std::move(items_.front()));
    items_.pop_front();
    if (items_.empty() && !closed_) Lower();
    return value;
  }

  // Calls visit() with the oldest `most` elements, while the queue is locked.
  template <typename Visit>
  void Look(size_t most, const Visit& visit) const {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < std::min(most, items_.size()); ++i) visit(items_[i]);
  }

  // Waits until an element is there or the queue is closed, at most `timeout_ms` (or until a
  // signal). True if Pop() will return an element. Consumer only; REQUIRES timeout_ms >= 0.
  bool Wait(int timeout_ms) {
    DSLIDE_CHECK(timeout_ms >= 0);
    pollfd entry{event_, POLLIN, 0};
    (void)poll(&entry, 1, timeout_ms);
    return size() != 0;
  }

  // Pushes fail from now on and fd() stays readable. May be called more than once.
  void Close() {
    const MutexLock lock(mutex_);
    if (!closed_ && items_.empty()) Raise();
    closed_ = true;
  }

  // Closes, and drops the elements that are in the queue. Any thread.
  void CloseAndDrop() {
    const MutexLock lock(mutex_);
    if (!closed_ && items_.empty()) Raise();
    items_.clear();
    closed_ = true;
  }

  bool closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }
  size_t size() const {
    const MutexLock lock(mutex_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }
  int fd() const { return event_; }

 private:
  // Invariant under mutex_: the eventfd's counter is 1 if items_ is not empty or closed_, else 0.
  // Only changes of that state cost a system call.
  void Raise() DSLIDE_REQUIRES(mutex_) {
    const uint64_t one = 1;
    DSLIDE_CHECK(Retry([&] { return write(event_, &one, sizeof one); }) == sizeof one);
  }
  void Lower() DSLIDE_REQUIRES(mutex_) {
    uint64_t count = 0;
    DSLIDE_CHECK(Retry([&] { return read(event_, &count, sizeof count); }) == sizeof count);
  }

  template <typename Call>
  static ssize_t Retry(Call call) {
    ssize_t result;
    do {
      result = call();
    } while (result < 0 && errno == EINTR);
    return result;
  }

  const size_t capacity_;
  const int event_;
  mutable Mutex mutex_;
  std::deque<T> items_ DSLIDE_GUARDED_BY(mutex_);
  bool closed_ DSLIDE_GUARDED_BY(mutex_) = false;
};

}  // namespace dslide
