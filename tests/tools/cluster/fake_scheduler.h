// A scheduler that answers observers as it is told, in a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/base/process.h"
#include "common/net/socket.h"

namespace dslide::testing {

class FakeScheduler {
 public:
  // The reply to a message; nullopt: none.
  using Answer = std::function<std::optional<Body>(const Body& request)>;

  static constexpr RunId kRun{77};

  // `answer` is called in the scheduler's thread. Joins are answered by `join_answer` before it is
  // asked.
  explicit FakeScheduler(Answer answer, Body join_answer = JoinReply{"observer", "", 0, 0})
      : answer_(std::move(answer)),
        join_answer_(std::move(join_answer)),
        thread_([this] { Serve(); }) {
    address_ready_.wait(false);
  }
  ~FakeScheduler() { Stop(); }

  const std::string& address() const { return address_; }

  // Ends the thread; then what it got, in order, may be looked at.
  const std::vector<Message>& Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return received_;
  }

 private:
  void Serve() {
    NetContext context;
    Result<RouterSocket> router = RouterSocket::Bind(context, "tcp://127.0.0.1:*");
    if (router.ok()) address_ = router->address();
    address_ready_ = true;
    address_ready_.notify_all();
    if (!router.ok()) return;
    Poller poller;
    poller.Add(*router);
    while (!stop_) {
      poller.Wait(5);
      while (auto received = router->Receive()) {
        const Result<Message> message = Decode(received->second);
        if (!message.ok()) continue;
        received_.push_back(*message);
        std::optional<Body> reply =
            std::holds_alternative<Join>(message->body) ? join_answer_ : answer_(message->body);
        if (!reply) continue;
        const bool pushed = std::holds_alternative<Shutdown>(*reply);
        Envelope envelope{kRun, {1}, ++sequence_, pushed ? 0 : message->envelope.sequence, 0};
        (void)router->Send(received->first,
                           Encode({envelope, *std::move(reply)}, WirePrecision::kFp32));
      }
    }
  }

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
