// Locks that the compiler checks: clang refuses code that uses a member with
// DSLIDE_GUARDED_BY(mutex) without the lock (-Wthread-safety,
// clang.llvm.org/docs/ThreadSafetyAnalysis.html). The classes are those of the standard library,
// which libstdc++ does not annotate.
//
// The analysis looks at one function at a time. A function whose caller has the lock says
// DSLIDE_REQUIRES(mutex). A lambda is a function of its own, so that a wait is a loop and has no
// predicate:
//
//   MutexLock lock(mutex_);
//   while (items_.empty()) changed_.Wait(lock);
//
// Constructors and destructors are not checked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define DSLIDE_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define DSLIDE_THREAD_ATTRIBUTE(attribute)
#endif

// A member that only functions with the mutex use.
#define DSLIDE_GUARDED_BY(mutex) DSLIDE_THREAD_ATTRIBUTE(guarded_by(mutex))
// A function whose callers have the mutex, or do not.
#define DSLIDE_REQUIRES(mutex) DSLIDE_THREAD_ATTRIBUTE(requires_capability(mutex))
#define DSLIDE_EXCLUDES(mutex) DSLIDE_THREAD_ATTRIBUTE(locks_excluded(mutex))
// The classes below.
#define DSLIDE_CAPABILITY(name) DSLIDE_THREAD_ATTRIBUTE(capability(name))
#define DSLIDE_SCOPED_CAPABILITY DSLIDE_THREAD_ATTRIBUTE(scoped_lockable)
#define DSLIDE_ACQUIRE(...) DSLIDE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define DSLIDE_RELEASE(...) DSLIDE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace dslide {

// Locked by MutexLock.
class DSLIDE_CAPABILITY("mutex") Mutex {
 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Locks a mutex, which must outlive it, and unlocks it at the end of its scope.
class DSLIDE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DSLIDE_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() DSLIDE_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // For work in between. REQUIRES that the mutex is locked, or is unlocked, by this object.
  void Unlock() DSLIDE_RELEASE() { lock_.unlock(); }
  void Lock() DSLIDE_ACQUIRE() { lock_.lock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

// Waits unlock the mutex meanwhile, and may end without a notification.
class ConditionVariable {
 public:
  void NotifyOne() { variable_.notify_one(); }
  void NotifyAll() { variable_.notify_all(); }

  void Wait(MutexLock& lock) { variable_.wait(lock.lock_); }
  // False: the time has come.
  [[nodiscard]] bool WaitUntil(MutexLock& lock, std::chrono::steady_clock::time_point time) {
    return variable_.wait_until(lock.lock_, time) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable variable_;
};

}  // namespace dslide
