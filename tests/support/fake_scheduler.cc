#include "tests/support/fake_scheduler.h"

#include <utility>

#include "common/net/socket.h"

namespace dslide::testing {

FakeScheduler::FakeScheduler(Answer answer, Body join_answer)
    : answer_(std::move(answer)),
      join_answer_(std::move(join_answer)),
      thread_([this] { Serve(); }) {
  address_ready_.wait(false);
}

const std::vector<Message>& FakeScheduler::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return received_;
}

void FakeScheduler::Serve() {
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
      const Result<Message> message = Decode(received->bytes);
      if (!message.ok()) continue;
      received_.push_back(*message);
      std::optional<Body> reply =
          std::holds_alternative<Join>(message->body) ? join_answer_ : answer_(message->body);
      if (!reply) continue;
      const bool pushed = std::holds_alternative<Shutdown>(*reply);
      Envelope envelope{kRun, {1}, ++sequence_, pushed ? 0 : message->envelope.sequence, 0};
      (void)router->Send(received->peer,
                         Encode({envelope, *std::move(reply)}, WirePrecision::kFp32));
    }
  }
}

}  // namespace dslide::testing
