#include "tests/attacks/lying_worker.h"

#include <fmt/core.h>

#include <map>
#include <vector>

#include "common/base/process.h"
#include "common/net/access_list.h"
#include "common/net/socket.h"
#include "common/net/usage.h"
#include "worker/worker_core.h"

namespace dslide {
namespace {

constexpr int kPollMs = 20;
constexpr int64_t kAgainMs = 300;  // from the end of one life to the next

// The shell of one life.
class LyingWorker {
 public:
  LyingWorker(Strike* strike, const LyingOptions* options)
      : strike_(strike),
        options_(options),
        core_(strike->Draw(), options->name, 1),
        scheduler_(*DealerSocket::Connect(strike->context(), strike->target().scheduler,
                                          strike->To(strike->target().scheduler_key))) {}

  // Returns why it ended.
  std::string Run();
  uint64_t reported() const { return reported_; }

 private:
  DealerSocket* SocketOf(uint32_t peer);
  void Receive(uint32_t from);
  void Apply(WorkerCore::Effects effects);
  void Dial(const Plan& plan);
  void Send(WorkerCore::Outgoing* out);

  Strike* strike_;
  const LyingOptions* options_;
  AwakeClock clock_;
  WorkerCore core_;
  DealerSocket scheduler_;
  std::vector<std::optional<DealerSocket>> servers_;
  std::optional<Status> exit_;
  uint64_t reported_ = 0;
  uint64_t copy_sequence_ = uint64_t{1} << 40;
};

DealerSocket* LyingWorker::SocketOf(uint32_t peer) {
  if (peer == WorkerCore::kScheduler) return &scheduler_;
  if (peer >= servers_.size() || !servers_[peer]) return nullptr;
  return &*servers_[peer];
}

std::string LyingWorker::Run() {
  Apply(core_.Start(clock_.Micros()));
  int64_t failures = 0;
  while (!exit_ && strike_->Goes()) {
    Poller poller;
    poller.Add(scheduler_);
    for (auto& server : servers_) {
      if (server) poller.Add(*server);
    }
    poller.Wait(kPollMs);
    Receive(WorkerCore::kScheduler);
    for (uint32_t s = 0; s < servers_.size(); ++s) Receive(s);
    if (exit_) break;
    Apply(core_.Tick(UsageHeartbeat(0, 0), clock_.Micros()));
    for (auto& server : servers_) {
      if (server) (void)server->TakeFailure();
    }
    if (const auto failure = scheduler_.TakeFailure()) {
      if (failure->refused && failure->had_connected && ++failures > 3) return "its key is refused";
    }
  }
  if (!exit_) {
    Apply(core_.Goodbye(UsageHeartbeat(0, 0)));
    return "";
  }
  return exit_->ok() ? "dismissed" : exit_->error().message;
}

void LyingWorker::Receive(uint32_t from) {
  for (;;) {
    DealerSocket* const socket = SocketOf(from);
    auto bytes = socket == nullptr ? std::nullopt : socket->Receive();
    if (!bytes) return;
    Result<Message> message = Decode(*bytes);
    if (!message.ok() || std::holds_alternative<AccessList>(message->body)) continue;
    Apply(core_.Handle(from, *std::move(message), bytes->size(), clock_.Micros()));
  }
}

void LyingWorker::Dial(const Plan& plan) {
  servers_.clear();
  for (const PlanServer& server : plan.servers) {
    Result<DealerSocket> socket = DealerSocket::Connect(
        strike_->context(), server.address, strike_->To(strike_->target().KeyOf(server.name)));
    servers_.push_back(socket.ok() ? std::optional(*std::move(socket)) : std::nullopt);
  }
}

void LyingWorker::Send(WorkerCore::Outgoing* out) {
  if (std::holds_alternative<BatchDone>(out->message.body)) {
    strike_->Rest(options_->delay_ms);
    reported_++;
  }
  if (options_->twist && !options_->twist(out->to, &out->message)) return;
  DealerSocket* const socket = SocketOf(out->to);
  if (socket == nullptr) return;
  Bytes bytes = Encode(out->message, out->precision);
  core_.NoteSent(out->message, bytes.size());
  (void)socket->Send(std::move(bytes));
  for (int i = 1; i < options_->copies && out->to != WorkerCore::kScheduler; ++i) {
    out->message.envelope.sequence = copy_sequence_++;
    (void)socket->Send(Encode(out->message, out->precision));
  }
}

void LyingWorker::Apply(WorkerCore::Effects effects) {
  if (effects.connect) Dial(*effects.connect);
  for (WorkerCore::Outgoing& out : effects.send) Send(&out);
  if (effects.exit) exit_ = effects.exit;
}

}  // namespace

void RunLyingWorker(Strike& strike, LyingOptions options) {
  uint64_t reported = 0;
  int lives = 0;
  std::string why;
  while (strike.Goes()) {
    LyingWorker worker(&strike, &options);
    const std::string ended = worker.Run();
    reported += worker.reported();
    lives++;
    if (!ended.empty()) why = ended;
    strike.Rest(kAgainMs);
  }
  strike.Say(fmt::format("{} batches reported", reported));
  if (lives > 1) strike.Say(fmt::format("{} lives; put out: {}", lives, why));
}

}  // namespace dslide
