// The two ways of many transfers in flight. io_uring costs half the CPU time of threads, and
// containers often forbid it.
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <system_error>
#include <thread>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "server/rows/tier/tier_file.h"

namespace dslide {
namespace {

class Ring : public TierIo {
 public:
  explicit Ring(int fd) : fd_(fd) {}
  ~Ring() override {
    if (made_) io_uring_queue_exit(&ring_);
  }
  // False: the system forbids it.
  bool Make(uint32_t depth) {
    // Completions then interrupt nobody, but are looked for; since Linux 6.1.
    defers_ = io_uring_queue_init(depth, &ring_, kDefer) == 0;
    made_ = defers_ || io_uring_queue_init(depth, &ring_, 0) == 0;
    return made_;
  }

  void Add(const Transfer& t) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      Submit();
      entry = io_uring_get_sqe(&ring_);
    }
    DSLIDE_CHECK(entry != nullptr);
    const auto bytes = static_cast<unsigned>(t.bytes);
    if (t.write) {
      io_uring_prep_write(entry, fd_, t.data, bytes, t.offset);
    } else {
      io_uring_prep_read(entry, fd_, t.data, bytes, t.offset);
    }
    io_uring_sqe_set_data64(entry, t.index);
  }

  void Submit() override {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int result = io_uring_submit(&ring_);
      DSLIDE_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
    }
  }

  void Collect(bool wait, std::vector<Outcome>* outcomes) override {
    io_uring_cqe* entry = nullptr;
    if (wait) {
      while (io_uring_wait_cqe(&ring_, &entry) == -EINTR) {
      }
    } else if (defers_) {
      (void)io_uring_get_events(&ring_);
    }
    unsigned head = 0, taken = 0;
    io_uring_for_each_cqe(&ring_, head, entry) {
      outcomes->push_back({static_cast<uint32_t>(entry->user_data), entry->res});
      ++taken;
    }
    io_uring_cq_advance(&ring_, taken);
  }

 private:
  static constexpr unsigned kDefer = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

  int fd_;
  bool made_ = false;
  bool defers_ = false;
  io_uring ring_ = {};
};

class Threads : public TierIo {
 public:
  explicit Threads(int fd) : fd_(fd) {
    try {
      for (uint32_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
    } catch (const std::system_error&) {  // as many as the system allows
    }
  }
  ~Threads() override {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
    }
    work_.NotifyAll();
  }

  bool any() const { return !threads_.empty(); }

  void Add(const Transfer& transfer) override { added_.push_back(transfer); }

  void Submit() override {
    const size_t count = added_.size();
    {
      const MutexLock lock(mutex_);
      waiting_.insert(waiting_.end(), added_.begin(), added_.end());
    }
    added_.clear();
    for (size_t i = 0; i < std::min<size_t>(count, kThreads); ++i) work_.NotifyOne();
  }

  void Collect(bool wait, std::vector<Outcome>* outcomes) override {
    MutexLock lock(mutex_);
    while (wait && outcomes_.empty()) done_.Wait(lock);
    outcomes->insert(outcomes->end(), outcomes_.begin(), outcomes_.end());
    outcomes_.clear();
  }

 private:
  static constexpr uint32_t kThreads = 16;

  int64_t Do(const Transfer& t) const {
    const auto offset = static_cast<off_t>(t.offset);
    const ssize_t result =
        t.write ? pwrite(fd_, t.data, t.bytes, offset) : pread(fd_, t.data, t.bytes, offset);
    return result < 0 ? -errno : result;
  }

  void Run() {
    MutexLock lock(mutex_);
    while (true) {
      while (!ends_ && waiting_.empty()) work_.Wait(lock);
      if (waiting_.empty()) return;
      const Transfer transfer = waiting_.front();
      waiting_.pop_front();
      lock.Unlock();
      const Outcome outcome{transfer.index, Do(transfer)};
      lock.Lock();
      outcomes_.push_back(outcome);
      if (outcomes_.size() == 1) done_.NotifyOne();
    }
  }

  int fd_;
  std::vector<Transfer> added_;
  Mutex mutex_;
  ConditionVariable work_;
  ConditionVariable done_;
  std::deque<Transfer> waiting_ DSLIDE_GUARDED_BY(mutex_);
  std::vector<Outcome> outcomes_ DSLIDE_GUARDED_BY(mutex_);
  bool ends_ DSLIDE_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they use the rest
};

}  // namespace

std::unique_ptr<TierIo> TierIo::ByRing(int fd, uint32_t depth) {
  auto ring = std::make_unique<Ring>(fd);
  if (!ring->Make(depth)) return nullptr;
  return ring;
}

std::unique_ptr<TierIo> TierIo::ByThreads(int fd) {
  auto threads = std::make_unique<Threads>(fd);
  if (!threads->any()) return nullptr;
  return threads;
}

}  // namespace dslide
