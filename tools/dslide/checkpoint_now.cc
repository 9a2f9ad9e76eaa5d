// dslide checkpoint now: a running cluster writes a checkpoint now.
#include <fmt/core.h>

#include "common/base/process.h"
#include "common/config/executable.h"
#include "common/net/socket.h"
#include "tools/dslide/checkpoint_commands.h"

namespace dslide {
namespace {

constexpr int64_t kAnswerMs = 10000;
constexpr int64_t kTimeoutMs = 600000;

Status Checkpoint(const ParsedArguments& arguments) {
  const std::string address = arguments.Get("scheduler");
  NetContext context;
  Result<DealerSocket> socket = DealerSocket::Connect(context, address);
  DSLIDE_RETURN_IF_ERROR(socket);
  Poller poller;
  poller.Add(*socket);
  const Incarnation incarnation = DrawIncarnation();
  Join join;
  join.role = Role::kObserver;
  join.name = "dslide-checkpoint";
  socket->Send(Encode({{{}, incarnation, 1, 0, 0}, join}, WirePrecision::kFp32));
  std::optional<RunId> run;
  uint64_t sequence = 3;
  const int64_t deadline_ms = MonotonicMillis() + kTimeoutMs;
  const int64_t answer_by_ms = MonotonicMillis() + kAnswerMs;
  while (MonotonicMillis() < deadline_ms) {
    poller.Wait(1000);
    if (!run && MonotonicMillis() > answer_by_ms) {
      return TryLater(fmt::format("no answer from {} within {} s; is the scheduler running there?",
                                  address, kAnswerMs / 1000));
    }
    if (run) {  // any message keeps an observer in the roster
      socket->Send(
          Encode({{*run, incarnation, sequence++, 0, 0}, Heartbeat{}}, WirePrecision::kFp32));
    }
    while (auto bytes = socket->Receive()) {
      const Result<Message> message = Decode(*bytes);
      DSLIDE_RETURN_IF_ERROR(message);
      if (std::holds_alternative<JoinReply>(message->body)) {
        run = message->envelope.run;
        socket->Send(Encode({{message->envelope.run, incarnation, 2, 0, 0}, CheckpointNow{}},
                            WirePrecision::kFp32));
      } else if (const auto* done = std::get_if<CheckpointDone>(&message->body)) {
        fmt::print("{}\n", done->shard);
        return {};
      } else if (const auto* error = std::get_if<ErrorReply>(&message->body)) {
        return Failed(error->text);
      } else if (const auto* shutdown = std::get_if<Shutdown>(&message->body)) {
        return Failed("the run ended: " + shutdown->reason);
      }
    }
  }
  return TryLater(fmt::format("no checkpoint from the scheduler at {} within {} s", address,
                              kTimeoutMs / 1000));
}

}  // namespace

int CheckpointNowCommand(int argc, char** argv) {
  CommandLine line("dslide checkpoint now --scheduler ADDRESS",
                   "Makes a running cluster write a checkpoint now, and prints where it lies.");
  line.Required("scheduler", "ADDRESS", "address of the scheduler");
  return RunExecutable("dslide checkpoint now", line, argc, argv, Checkpoint);
}

}  // namespace dslide
