#include "worker/worker_shell.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "common/base/failpoint.h"
#include "common/base/overloaded.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/net/usage.h"

namespace dslide {
namespace {

constexpr int kPollMs = 50;

// Passes the failpoint of a message that is about to be sent.
void PassPointOf(const Body& body) {
  std::visit(Overloaded{
                 [](const EmbedRequest&) { PassFailpoint(Failpoint::kWorkerEmbed); },
                 [](const ActiveQuery&) { PassFailpoint(Failpoint::kWorkerQuery); },
                 [](const GradientPush&) { PassFailpoint(Failpoint::kWorkerPush); },
                 [](const BatchDone&) { PassFailpoint(Failpoint::kWorkerBeforeReport); },
                 [](const EmbedPush& push) {
                   PassFailpoint(Failpoint::kWorkerEmbedPush);
                   if (push.next) PassFailpoint(Failpoint::kWorkerEmbed);
                 },
                 [](const auto&) {},
             },
             body);
}

}  // namespace

WorkerShell::WorkerShell(NetContext* context, const Options& options, DealerSocket scheduler)
    : context_(context),
      options_(options),
      core_(DrawIncarnation(options.scheduler.own()), options.name, CoresOfThisMachine(),
            options.file),
      scheduler_(std::move(scheduler)),
      cpu_before_s_(UsageOfThisProcess().cpu_seconds) {}

Result<SessionEnd> WorkerShell::Run(NetContext* context, const Options& options,
                                    StopSignals* signals) {
  const SchedulerAccess& to = options.scheduler;
  Result<DealerSocket> socket = DealerSocket::Connect(*context, to.address, to.curve);
  DSLIDE_RETURN_IF_ERROR(socket);
  WorkerShell shell(context, options, std::move(*socket));
  return shell.Loop(signals);
}

SessionEnd WorkerShell::Loop(StopSignals* signals) {
  stop_fd_ = signals->fd();
  WatchSockets();
  dialled_ms_ = clock_.Millis();
  Apply(core_.Start(clock_.Micros()));
  while (!exit_) {
    poller_.Wait(kPollMs);
    if (signals->Take()) Stop();
    if (exit_) break;
    if (options_.lent != nullptr && signals->TakeReload()) options_.lent->Reload();
    if (options_.lent != nullptr) Obey();
    Receive(WorkerCore::kScheduler);
    for (uint32_t s = 0; s < servers_.size(); ++s) Receive(s);
    if (exit_) break;  // an outcome is final
    Apply(core_.Tick(Usage(), clock_.Micros()));
    if (silence_.Due(core_.heard_ms(), clock_.Millis())) {
      Say({event::kSchedulerSilent,
           "still no answer from the scheduler at " + options_.scheduler.address});
    }
    if (const auto line = failed_batches_.Due(clock_.Millis())) Say(*line);
    CheckHandshakes();
    Redial();
  }
  const std::string name = core_.given_name();
  Apply(core_.Goodbye(Usage()));
  return {*exit_, FinishesForPause() && !stopping_ && !dismissed_, stopping_, dismissed_, name};
}

void WorkerShell::Stop() {
  if (!core_.joined()) {
    stopping_ = true;
    LogInfo({event::kStopRequested, "stopped before it has joined"});
    exit_ = Status();
  } else if (stopping_) {
    exit_ = Failed("stopped at once; the batches in flight are trained by others");
  } else {
    stopping_ = true;
    LogInfo({event::kStopRequested, "stopping: finishing the batches in flight"});
    core_.RequestStop();
  }
}

void WorkerShell::Obey() {
  LentMachine& lent = *options_.lent;
  const int64_t now_ms = clock_.Millis();
  const IdleDecision& decision = lent.Look(now_ms);
  core_.Hold(!lent.MayBegin(clock_.Micros()), decision.in_flight_cap);
  const bool is_silent = now_ms - core_.heard_ms() >= PatienceMs();
  lent.SetState(is_silent        ? "waiting"
                : core_.joined() ? "running"
                                 : "joining",
                core_.given_name(), now_ms);
  if (!FinishesForPause() && decision.pauses()) {
    rests_at_ms_ = now_ms + kFinishMs;
    core_.RequestStop();
  }
  const bool late = FinishesForPause() && now_ms >= *rests_at_ms_;
  if (FinishesForPause() && (late || !core_.joined())) exit_ = Status();
}

void WorkerShell::Say(Event event) {
  if (options_.lent == nullptr) return LogInfo(event);
  options_.lent->Say(std::move(event), clock_.Millis());
}

// A process may have several sessions, and each counts for itself.
Heartbeat WorkerShell::Usage() const {
  Heartbeat beat = UsageHeartbeat(bytes_sent_, bytes_received_);
  beat.cpu_seconds -= cpu_before_s_;
  return beat;
}

int64_t WorkerShell::PatienceMs() const {
  return std::max<int64_t>(kRedialMs, int64_t{3} * core_.heartbeat_ms());
}

void WorkerShell::Redial() {
  const int64_t now_ms = clock_.Millis();
  if (!options_.redials || exit_) return;
  if (now_ms - std::max(core_.heard_ms(), dialled_ms_) < PatienceMs()) return;
  dialled_ms_ = now_ms;
  const SchedulerAccess& to = options_.scheduler;
  Result<DealerSocket> socket = DealerSocket::Connect(*context_, to.address, to.curve);
  if (!socket.ok()) return;  // the same address was good before
  Say({event::kSchedulerSilent,
       fmt::format("the scheduler at {} is silent; dialling again", to.address),
       {{"scheduler", to.address}}});
  scheduler_ = std::move(*socket);
  for (size_t s = 0; s < servers_.size(); ++s) servers_[s] = DialServer(plan_[s]);
  WatchSockets();
}

// Looked up for each message, because a message may bring a plan with other sockets.
DealerSocket* WorkerShell::SocketOf(uint32_t peer) {
  if (peer == WorkerCore::kScheduler) return &scheduler_;
  if (peer >= servers_.size() || !servers_[peer]) return nullptr;
  return &*servers_[peer];
}

void WorkerShell::Receive(uint32_t from) {
  for (;;) {
    DealerSocket* const socket = SocketOf(from);
    auto bytes = socket == nullptr ? std::nullopt : socket->Receive();
    if (!bytes) return;
    bytes_received_ += bytes->size();
    if (options_.lent != nullptr) options_.lent->CountReceived(bytes->size());
    Result<Message> message = Decode(*bytes);
    if (!message.ok()) {
      LogWarning({event::kMessageMalformed, "a reply is dropped: " + message.error().message});
      if (from != WorkerCore::kScheduler) core_.OnMalformed(from, clock_.Micros());
      continue;
    }
    if (std::holds_alternative<JoinReply>(message->body)) NameRunInLog(message->envelope.run);
    if (const auto* access = std::get_if<AccessList>(&message->body)) {
      if (from == WorkerCore::kScheduler) TakeAccess(*access);
      continue;
    }
    Apply(core_.Handle(from, std::move(*message), bytes->size(), clock_.Micros()));
  }
}

// Servers whose keys were not known may be known now.
void WorkerShell::TakeAccess(const AccessList& list) {
  access_.Set(list);
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s]) continue;
    servers_[s] = DialServer(plan_[s]);
    if (servers_[s]) poller_.Add(*servers_[s]);
  }
}

// A scheduler that does not let this key in is the end; a server may not have heard of it yet.
void WorkerShell::CheckHandshakes() {
  if (const auto failure = scheduler_.TakeFailure(); failure && !exit_) {
    const Status refused = SchedulerRefusal(*failure, options_.scheduler);
    if (!refused.ok()) exit_ = refused;
  }
  for (std::optional<DealerSocket>& server : servers_) {
    if (server) (void)server->TakeFailure();
  }
}

void WorkerShell::Apply(WorkerCore::Effects effects) {
  for (Event& event : effects.notices) Say(std::move(event));
  for (Event& event : effects.failed_batches) {
    if (options_.redials) continue;  // others train the batch; a volunteer need not hear of it
    const auto admitted = failed_batches_.Admit(std::move(event), clock_.Millis());
    if (admitted) Say(*admitted);
  }
  if (effects.connect) Dial(*effects.connect);
  for (WorkerCore::Outgoing& out : effects.send) {
    PassPointOf(out.message.body);
    if (auto* push = std::get_if<EmbedPush>(&out.message.body)) {
      lies_ |= PassFailpoint(Failpoint::kWorkerLie);
      if (lies_)
        std::ranges::transform(push->gradient.data, push->gradient.data.begin(), std::negate());
    }
    Bytes bytes = Encode(out.message, out.precision);
    const size_t size = bytes.size();
    core_.NoteSent(out.message, size);
    // A message that does not fit the queue is sent again after cluster.request_timeout_ms.
    DealerSocket* const socket = SocketOf(out.to);
    if (socket == nullptr) continue;
    if (socket->Send(std::move(bytes))) {
      bytes_sent_ += size;
      if (options_.lent != nullptr) CountForOwner(out.message, size);
    } else if (core_.joined()) {  // after a refusal the socket has no queue
      const std::string to = out.to == WorkerCore::kScheduler
                                 ? "the scheduler"
                                 : "the server at " + plan_[out.to].address;
      const auto admitted = full_queues_.Admit(
          {event::kQueueFull, fmt::format("the queue to {} is full; sending again later", to)},
          clock_.Millis());
      if (admitted) LogWarning(*admitted);
    }
    if (std::holds_alternative<Join>(out.message.body)) {
      PassFailpoint(Failpoint::kWorkerJoin);
    }
  }
  if (effects.dismissed) dismissed_ = effects.dismissed;
  if (effects.exit) exit_ = effects.exit;
}

// For the owner of a lent machine. A report that is sent again is the same work.
void WorkerShell::CountForOwner(const Message& message, size_t bytes) {
  options_.lent->CountSent(bytes);
  const auto* done = std::get_if<BatchDone>(&message.body);
  if (done == nullptr || message.envelope.sequence <= reported_) return;
  reported_ = message.envelope.sequence;
  options_.lent->CountSamples(done->samples);
}

// A server that cannot be dialled counts as one that does not answer; another plan may correct
// that.
std::optional<DealerSocket> WorkerShell::DialServer(const PlanServer& server) {
  Result<DealerSocket> socket = DialMember(*context_, access_, options_.scheduler, server);
  if (socket.ok()) return std::move(*socket);
  LogWarning({event::kPeerUnreachable,
              fmt::format("{} has an address that is of no use: {}; its batches wait for another "
                          "plan",
                          server.name, socket.error().message),
              {{"server", server.name}}});
  return std::nullopt;
}

// Connections to servers that stay are kept. One that has begun a new life gets a new one: it may
// have another key, and what waits in the queue of the old connection is of no use to it.
void WorkerShell::Dial(const Plan& plan) {
  poller_.Clear();  // before sockets are closed
  const auto link_of = [](const PlanServer& server) {
    return std::pair(server.address, server.incarnation);
  };
  std::map<std::pair<std::string, Incarnation>, DealerSocket> kept;
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s]) kept.emplace(link_of(plan_[s]), std::move(*servers_[s]));
  }
  servers_.clear();
  for (const PlanServer& server : plan.servers) {
    if (auto found = kept.extract(link_of(server))) {
      servers_.push_back(std::move(found.mapped()));
    } else {
      servers_.push_back(DialServer(server));
    }
  }
  plan_ = plan.servers;
  WatchSockets();
}

void WorkerShell::WatchSockets() {
  poller_.Clear();
  poller_.Add(scheduler_);
  poller_.AddFd(stop_fd_);
  for (std::optional<DealerSocket>& server : servers_) {
    if (server) poller_.Add(*server);
  }
}

}  // namespace dslide
