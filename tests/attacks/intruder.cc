#include "tests/attacks/intruder.h"

#include <algorithm>

#include "common/base/process.h"
#include "common/run/slot_plan.h"

namespace dslide {
namespace {

constexpr size_t kKept = 500;
constexpr int64_t kBeatMs = 150;
constexpr int64_t kJoinMs = 4000;  // a new key takes a second to be known
constexpr int64_t kJoinAgainMs = 300;

}  // namespace

std::string ErrorText(const Body& body) {
  const auto* error = std::get_if<ErrorReply>(&body);
  return error == nullptr ? "" : error->text;
}

std::string Described(const std::optional<Body>& answer) {
  if (!answer) return "no answer";
  const std::string text = ErrorText(*answer);
  return std::string(BodyName(*answer)) + (text.empty() ? "" : ": " + text);
}

Intruder::Intruder(Strike* strike)
    : strike_(strike),
      scheduler_(*DealerSocket::Connect(strike->context(), strike->target().scheduler,
                                        strike->To(strike->target().scheduler_key))),
      servers_(strike->target().servers.size()) {
  envelope_.incarnation = strike->Draw();
  envelope_.plan_version = strike->target().plan_version;
  envelope_.reply_precision = WirePrecision::kFp32;
}

Bytes Intruder::Next(const Body& body) {
  envelope_.sequence++;
  return Encode({envelope_, body}, precision_);
}

void Intruder::Tell(const Body& body) { (void)scheduler_.Send(Next(body)); }

std::optional<Body> Intruder::Ask(const Body& body, int64_t ms) {
  Tell(body);
  return Await(envelope_.sequence, ms);
}

std::string Intruder::Refusal(const Body& body, int64_t ms) {
  const std::optional<Body> answer = Ask(body, ms);
  return answer ? ErrorText(*answer) : "no answer";
}

DealerSocket* Intruder::Server(size_t server) {
  const Target& target = strike_->target();
  if (server >= servers_.size()) return nullptr;
  if (!servers_[server]) {
    Result<DealerSocket> socket =
        DealerSocket::Connect(strike_->context(), target.servers[server].address,
                              strike_->To(target.KeyOf(target.servers[server].name)));
    if (!socket.ok()) return nullptr;
    servers_[server].emplace(*std::move(socket));
  }
  return &*servers_[server];
}

bool Intruder::ThrowAtServer(size_t server, Bytes bytes) {
  DealerSocket* const socket = Server(server);
  return socket != nullptr && socket->Send(std::move(bytes));
}

void Intruder::TellServer(size_t server, const Body& body) {
  (void)ThrowAtServer(server, Next(body));
}

std::optional<Body> Intruder::AskServer(size_t server, const Body& body, int64_t ms) {
  TellServer(server, body);
  return Await(envelope_.sequence, ms);
}

std::optional<Body> Intruder::Await(uint64_t request, int64_t ms) {
  awaited_ = request;
  answer_.reset();
  const int64_t end_ms = MonotonicMillis() + ms;
  do {
    Receive(std::clamp<int64_t>(end_ms - MonotonicMillis(), 0, 50));
  } while (!answer_ && MonotonicMillis() < end_ms);
  awaited_ = 0;
  if (!answer_) return std::nullopt;
  return std::move(answer_->second);
}

void Intruder::Receive(int64_t ms) {
  (void)scheduler_.TakeFailure();
  Poller poller;
  poller.Add(scheduler_);
  for (auto& server : servers_) {
    if (!server) continue;
    (void)server->TakeFailure();
    poller.Add(*server);
  }
  poller.Wait(static_cast<int>(ms));
  while (const auto bytes = scheduler_.Receive()) Take(*bytes);
  for (auto& server : servers_) {
    if (!server) continue;
    while (const auto bytes = server->Receive()) Take(*bytes);
  }
  if (!beats_ || MonotonicMillis() - beat_ms_ < kBeatMs) return;
  beat_ms_ = MonotonicMillis();
  Tell(Heartbeat());
}

uint32_t Intruder::FeatureOf(size_t server) const {
  if (!plan_ || !config_ || server >= strike_->target().servers.size()) return 0;
  const SlotRange slots = InputSlots(config_->cluster);
  for (uint32_t feature = 0; feature < config_->model.features; ++feature) {
    const uint16_t owner = plan_->slot_owner[slots.SlotOf(feature).value];
    if (plan_->servers[owner].incarnation == strike_->target().servers[server].incarnation) {
      return feature;
    }
  }
  return 0;
}

void Intruder::Take(const Bytes& bytes) {
  if (deaf_) {
    received_++;
    return;
  }
  Result<Message> message = Decode(bytes);
  if (!message.ok()) return;
  received_++;
  if (const auto* plan = std::get_if<Plan>(&message->body)) {
    plan_ = *plan;
    envelope_.plan_version = plan->version;
  }
  if (awaited_ != 0 && message->envelope.reply_to == awaited_) {
    if (std::holds_alternative<JoinReply>(message->body)) envelope_.run = message->envelope.run;
    answer_ = {awaited_, std::move(message->body)};
    return;
  }
  inbox_.push_back(*std::move(message));
  if (inbox_.size() > kKept) inbox_.pop_front();
}

bool Intruder::Join(Role role, const std::string& name) {
  const int64_t end_ms = MonotonicMillis() + kJoinMs;
  why_ = "no answer";
  while (MonotonicMillis() < end_ms) {
    dslide::Join join;
    join.role = role;
    join.name = name;
    join.cores = 1;
    const RunId run = std::exchange(envelope_.run, {});
    const std::optional<Body> answer = Ask(join, kJoinAgainMs);
    if (!answer) {
      envelope_.run = run;
      continue;
    }
    if (const auto* reply = std::get_if<JoinReply>(&*answer)) {
      Result<Config> config = ParseSchedulersConfig(reply->config);
      if (config.ok()) config_ = *std::move(config);
      train_samples_ = reply->train_samples;
      beats_ = true;
      why_.clear();
      break;
    }
    why_ = ErrorText(*answer);
    return false;
  }
  if (!why_.empty()) return false;
  for (int i = 0; role == Role::kWorker && !plan_ && i < 40; ++i) Receive(50);
  return true;
}

void Repeat(Strike& strike, const Repetition& how,
            const std::function<void(Intruder& eve, uint64_t n)>& act) {
  Intruder eve(&strike);
  if (how.role && !eve.Join(*how.role)) return strike.Say("cannot join: " + eve.why());
  if (how.role == Role::kWorker && !eve.plan()) return strike.Say("has no plan");
  uint64_t done = 0;
  while (done < how.most && strike.Pace(how.per_second)) {
    act(eve, done);
    ++done;
    if (how.listens_every > 0 && done % how.listens_every == 0) eve.Receive();
    eve.inbox().clear();
  }
  while (strike.Goes()) eve.Receive(50);
  strike.Say(fmt::format("{} {}, {} answers", done, how.what, eve.received()));
}

}  // namespace dslide
