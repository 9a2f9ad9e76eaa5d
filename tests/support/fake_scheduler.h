// A scheduler that answers observers as it is told, in a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/wire/messages.h"

namespace dslide::testing {

class FakeScheduler {
 public:
  // The reply to a message; nullopt: none.
  using Answer = std::function<std::optional<Body>(const Body& request)>;

  static constexpr RunId kRun{77};

  // `answer` is called in the scheduler's thread. Joins are answered by `join_answer` before it is
  // asked.
  explicit FakeScheduler(Answer answer, Body join_answer = JoinReply{"observer", "", 0, 0});
  ~FakeScheduler() { Stop(); }

  const std::string& address() const { return address_; }

  // Ends the thread; then what it got, in order, may be looked at.
  const std::vector<Message>& Stop();

 private:
  void Serve();

  const Answer answer_;
  const Body join_answer_;
  std::string address_;
  std::atomic<bool> address_ready_ = false;
  std::atomic<bool> stop_ = false;
  uint64_t sequence_ = 0;
  std::vector<Message> received_;
  std::thread thread_;
};

}  // namespace dslide::testing
