// A worker that does all its work by the protocol, but for what an attack makes of its messages.
#pragma once

#include <functional>

#include "common/wire/messages.h"
#include "tests/attacks/strike.h"

namespace dslide {

// Changes a message that is about to be sent to the scheduler (WorkerCore::kScheduler) or to a
// server of the plan. False: it is not sent.
using Twist = std::function<bool(uint32_t to, Message* message)>;

struct LyingOptions {
  std::string name = "eve";
  Twist twist;
  int copies = 1;         // how often each message to a server is sent, under other sequences
  int64_t delay_ms = 10;  // before each report, as honest workers have it here
};

// Works until the strike's time is over, or the scheduler does not let it any more; then another
// life of it begins. Says how many batches it reported.
void RunLyingWorker(Strike& strike, LyingOptions options);

// The twist of all messages of one kind.
template <typename T>
Twist Change(std::function<void(T*)> change) {
  return [change](uint32_t, Message* message) {
    if (auto* body = std::get_if<T>(&message->body)) change(body);
    return true;
  };
}

}  // namespace dslide
