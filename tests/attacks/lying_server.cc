#include "tests/attacks/lying_server.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/process.h"
#include "common/net/access_list.h"
#include "common/net/socket.h"

namespace dslide {
namespace {

constexpr int kPollMs = 20;
constexpr int64_t kBeatMs = 150;
constexpr int64_t kJoinMs = 1000;
constexpr int64_t kSlotsMs = 20000;  // time for slots to come

// What the server's part of a worker's greeting is: zeros.
bool IsGreeting(const Body& body) {
  const auto* embed = std::get_if<EmbedRequest>(&body);
  return embed != nullptr && !embed->training;
}

class LyingServer {
 public:
  LyingServer(Strike* strike, const LyingServerOptions& options)
      : strike_(strike),
        options_(options),
        context_(&access_),
        peers_(*RouterSocket::Bind(context_, "tcp://127.0.0.1:*", strike->keys())),
        scheduler_(*DealerSocket::Connect(context_, strike->target().scheduler,
                                          strike->To(strike->target().scheduler_key))) {
    if (strike->target().scheduler_key) {
      access_.Set({{{TextOf(*strike->target().scheduler_key), KeyRole::kScheduler}}});
    }
    envelope_.incarnation = strike->Draw();
  }

  void Run() {
    while (strike_->Goes() && !left_) {
      Poller poller;
      poller.Add(scheduler_);
      poller.Add(peers_);
      poller.Wait(kPollMs);
      (void)scheduler_.TakeFailure();
      while (const auto bytes = scheduler_.Receive()) OnScheduler(*bytes);
      while (const auto received = peers_.Receive()) OnPeer(*received);
      Tick();
    }
    strike_->Say(fmt::format("{} lives in the run; {} slots at most, {} requests; told{}", lives_,
                             slots_, requests_, why_.empty() ? " nothing" : why_));
  }

 private:
  void Tell(Body body) {
    envelope_.sequence++;
    (void)scheduler_.Send(Encode({envelope_, std::move(body)}, WirePrecision::kFp32));
  }

  // Who is dismissed comes back at once, as somebody new.
  void BeginAgain() {
    if (options_.changes_name)
      peers_ = *RouterSocket::Bind(context_, "tcp://127.0.0.1:*", strike_->keys());
    config_.reset();
    envelope_.run = {};
    envelope_.plan_version = 0;
    envelope_.incarnation = strike_->Draw();
    seated_ = false;
  }

  void Tick() {
    const int64_t now_ms = MonotonicMillis();
    if (!config_ && now_ms - joined_ms_ > kJoinMs) {
      joined_ms_ = now_ms;
      Join join;
      join.role = Role::kServer;
      join.name =
          options_.changes_name ? fmt::format("{}-{}", options_.name, lives_) : options_.name;
      join.address = options_.address.empty() ? peers_.address() : options_.address;
      join.cores = 64;
      join.memory_bytes = options_.memory_bytes;
      Tell(join);
    }
    if (config_ && options_.wants_slots && !seated_ && now_ms - joined_ms_ > kSlotsMs) {
      Tell(Leave());
      return BeginAgain();
    }
    if (!config_ || now_ms - beat_ms_ < kBeatMs) return;
    beat_ms_ = now_ms;
    Heartbeat beat;
    if (options_.beat) options_.beat(&beat);
    Tell(beat);
    if (options_.tell) {
      if (auto body = options_.tell(round_++)) Tell(*std::move(body));
    }
    if (options_.drains && slots_ > 0) Tell(DrainServer{options_.name});
  }

  void OnScheduler(const Bytes& bytes) {
    Result<Message> message = Decode(bytes);
    if (!message.ok()) return;
    if (const auto* access = std::get_if<AccessList>(&message->body)) access_.Set(*access);
    if (const auto* reply = std::get_if<JoinReply>(&message->body)) {
      Result<Config> config = ParseSchedulersConfig(reply->config);
      if (config.ok()) config_ = *std::move(config);
      lives_++;
      envelope_.run = message->envelope.run;
      if (options_.leaves_with) {
        options_.leaves_with(*reply);
        Tell(Leave());
        left_ = true;
      }
    }
    if (const auto* plan = std::get_if<Plan>(&message->body)) OnPlan(*plan);
    if (const auto* move = std::get_if<MoveSlots>(&message->body)) {
      Tell(MoveReady{move->move, 1, 0});
    }
    if (const auto* shutdown = std::get_if<Shutdown>(&message->body)) {
      why_ = ": " + shutdown->reason;
      BeginAgain();
    }
    if (const auto* error = std::get_if<ErrorReply>(&message->body)) why_ = ": " + error->text;
  }

  void OnPlan(const Plan& plan) {
    envelope_.plan_version = plan.version;
    size_t slots = 0;
    for (const uint16_t owner : plan.slot_owner) {
      slots += plan.servers[owner].incarnation == envelope_.incarnation;
    }
    seated_ |= slots > 0;
    slots_ = std::max(slots_, slots);
    Tell(Ready{plan.version, 1, 1, 1, 1, 1});
  }

  void OnPeer(const RouterSocket::Received& received) {
    Result<Message> message = Decode(received.bytes);
    if (!message.ok()) return;
    if (options_.hear) options_.hear(message->envelope);
    std::optional<Body> answer;
    if (std::holds_alternative<StatusRequest>(message->body)) {
      answer = ErrorReply{ErrorCode::kRefused, "a server"};
    } else if (IsGreeting(message->body) && config_) {
      const auto& embed = std::get<EmbedRequest>(message->body);
      answer = EmbedReply{Matrix(embed.features.rows(), config_->model.hidden)};
    } else if (config_) {
      requests_++;
      answer = options_.answer ? options_.answer(message->body, *config_) : std::nullopt;
    }
    if (!answer) return;
    Envelope envelope = envelope_;
    envelope.sequence = ++envelope_.sequence;
    envelope.reply_to = message->envelope.sequence;
    (void)peers_.Send(received.peer, Encode({envelope, *std::move(answer)}, WirePrecision::kFp32));
  }

  Strike* strike_;
  const LyingServerOptions& options_;
  AccessListHolder access_;
  NetContext context_;
  RouterSocket peers_;
  DealerSocket scheduler_;
  Envelope envelope_;
  std::optional<Config> config_;
  int64_t joined_ms_ = 0, beat_ms_ = 0;
  uint64_t round_ = 0, requests_ = 0, lives_ = 0;
  size_t slots_ = 0;
  bool seated_ = false;  // in this life
  bool left_ = false;
  std::string why_;
};

}  // namespace

void RunLyingServer(Strike& strike, const LyingServerOptions& options) {
  LyingServer(&strike, options).Run();
}

}  // namespace dslide
