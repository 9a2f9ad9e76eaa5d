#include "tools/dslide/cluster/observer.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "common/base/process.h"
#include "common/net/member_link.h"
#include "common/net/resolve.h"
#include "common/run/scheduler_link.h"

namespace dslide {
namespace {

constexpr int64_t kHeartbeatMs = 1000;  // any message keeps an observer in the roster

}  // namespace

struct Observer::Impl {
  uint64_t Send(const Body& body) {
    Bytes bytes = Encode({link.Next(0), body}, WirePrecision::kFp32);
    if (link.run() == RunId()) join = bytes;
    (void)socket->Send(std::move(bytes));
    return link.last_sequence();
  }

  // The reply to `request`; nullopt if none arrives before `deadline_ms`. `request` 0: waits until
  // then.
  Result<std::optional<Message>> Receive(uint64_t request, int64_t deadline_ms);

  explicit Impl(const SchedulerAccess& to)
      : access(to), address(to.address), link(DrawIncarnation(to.own())) {}

  SchedulerAccess access;
  std::string address;
  NetContext context;
  std::optional<DealerSocket> socket = {};
  SchedulerLink link;
  Bytes join;  // the request to join
};

Result<std::optional<Message>> Observer::Impl::Receive(uint64_t request, int64_t deadline_ms) {
  Poller poller;
  poller.Add(*socket);
  link.HeartbeatSent(MonotonicMillis());
  int64_t again_ms = 0;  // when the Join goes again; 0: it does not
  while (true) {
    while (const auto bytes = socket->Receive()) {
      Result<Message> message = Decode(*bytes);
      DSLIDE_RETURN_IF_ERROR(message);
      if (const auto* shutdown = std::get_if<Shutdown>(&message->body)) {
        return Failed("the run ended: " + shutdown->reason);
      }
      if (request == 0 || message->envelope.reply_to != request) continue;
      return std::optional<Message>(*std::move(message));
    }
    if (const auto failure = socket->TakeFailure()) {
      DSLIDE_RETURN_IF_ERROR(SchedulerRefusal(*failure, access));
      if (link.run() == RunId()) again_ms = MonotonicMillis() + kRefusedRetryMs;
    }
    const int64_t now_ms = MonotonicMillis();
    if (now_ms >= deadline_ms) return std::optional<Message>();
    // A refused connection loses what was sent, and a key that was just made is not yet known.
    if (again_ms > 0 && now_ms >= again_ms && socket->Send(join)) again_ms = 0;
    if (link.run() != RunId() && link.HeartbeatDue(now_ms, kHeartbeatMs)) {
      Send(Heartbeat{});
      link.HeartbeatSent(now_ms);
    }
    poller.Wait(static_cast<int>(
        std::min(deadline_ms - now_ms, again_ms > 0 ? kRefusedRetryMs : kHeartbeatMs)));
  }
}

Observer::Observer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Observer::Observer(Observer&&) noexcept = default;

Observer::~Observer() {
  if (impl_ != nullptr && impl_->link.run() != RunId()) impl_->Send(Leave{});
}

Result<Observer> Observer::Join(const SchedulerAccess& scheduler, const std::string& name,
                                int64_t answer_ms) {
  const std::string& address = scheduler.address;
  Observer observer(std::make_unique<Impl>(scheduler));
  Result<DealerSocket> socket =
      DealerSocket::Connect(observer.impl_->context, address, scheduler.curve);
  DSLIDE_RETURN_IF_ERROR(socket);
  DSLIDE_RETURN_IF_ERROR(CheckResolves(address));
  observer.impl_->socket = *std::move(socket);
  dslide::Join join;
  join.role = Role::kObserver;
  join.name = name;
  const uint64_t request = observer.impl_->Send(join);
  const auto reply = observer.impl_->Receive(request, MonotonicMillis() + answer_ms);
  DSLIDE_RETURN_IF_ERROR(reply);
  if (!reply->has_value()) {
    return TryLater(
        fmt::format("no answer from {} within {} s; is the scheduler running there? Its address is "
                    "in the file scheduler.address of its run directory",
                    address, (answer_ms + 999) / 1000));
  }
  if (const auto* error = std::get_if<ErrorReply>(&(*reply)->body)) {
    // A scheduler accepts a Join of any run.
    if (error->code != ErrorCode::kWrongRun) return Failed(error->text);
    return BadInput(
        fmt::format("a server answers at {}, no scheduler; give the scheduler's address", address));
  }
  observer.impl_->link.Joined((*reply)->envelope.run);
  return observer;
}

Result<Body> Observer::Ask(const Body& request, int64_t timeout_ms) {
  const uint64_t sequence = impl_->Send(request);
  const auto reply = impl_->Receive(sequence, MonotonicMillis() + timeout_ms);
  DSLIDE_RETURN_IF_ERROR(reply);
  if (!reply->has_value()) {
    return TryLater(fmt::format("the scheduler at {} did not answer {} within {} s", impl_->address,
                                BodyName(request), (timeout_ms + 999) / 1000));
  }
  if (const auto* error = std::get_if<ErrorReply>(&(*reply)->body)) return Failed(error->text);
  return (*reply)->body;
}

Result<std::string> Observer::StatusJson() {
  const Result<Body> reply = Ask(StatusRequest{});
  DSLIDE_RETURN_IF_ERROR(reply);
  const auto* status = std::get_if<StatusReply>(&*reply);
  if (status == nullptr) {
    return Failed(fmt::format("the scheduler answered {} to a StatusRequest", BodyName(*reply)));
  }
  return status->json;
}

Status Observer::Wait(int64_t ms) {
  const auto message = impl_->Receive(0, MonotonicMillis() + ms);
  if (!message.ok()) return message.error();
  return {};
}

}  // namespace dslide
