#include "worker/worker_shell.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/data/checksum.h"
#include "common/math/kernels.h"
#include "common/net/usage.h"
#include "common/text/samples.h"

namespace dslide {
namespace {

constexpr int kPollMs = 50;

Result<TrainingFile> ReadTrainingFile(const std::string& path) {
  // The same file gives the same samples as on the scheduler's machine if the run has the default
  // train.min_label_samples, and for text the default settings of [text].
  Result<TrainingSamples> loaded = LoadTrainingSamples(path, {});
  DSLIDE_RETURN_IF_ERROR(loaded);
  const uint64_t checksum = Checksum(loaded->data);
  return TrainingFile{path, std::move(loaded->data), checksum};
}

// Passes the failpoint of a message that is about to be sent.
void PassPointOf(const Body& body) {
  if (std::holds_alternative<EmbedRequest>(body)) PassFailpoint(Failpoint::kWorkerEmbed);
  if (std::holds_alternative<ActiveQuery>(body)) PassFailpoint(Failpoint::kWorkerQuery);
  if (std::holds_alternative<GradientPush>(body)) PassFailpoint(Failpoint::kWorkerPush);
  if (std::holds_alternative<BatchDone>(body)) PassFailpoint(Failpoint::kWorkerBeforeReport);
  if (const auto* push = std::get_if<EmbedPush>(&body)) {
    PassFailpoint(Failpoint::kWorkerEmbedPush);
    if (push->next) PassFailpoint(Failpoint::kWorkerEmbed);
  }
}

}  // namespace

WorkerShell::WorkerShell(NetContext* context, WorkerCore core, DealerSocket scheduler,
                         SchedulerAccess scheduler_access)
    : context_(context),
      core_(std::move(core)),
      scheduler_(std::move(scheduler)),
      scheduler_access_(std::move(scheduler_access)) {}

Status WorkerShell::Run(const WorkerOptions& options, StopSignals* signals) {
  FlushDenormals();
  std::optional<TrainingFile> file;
  if (!options.data.empty()) {
    Result<TrainingFile> read = ReadTrainingFile(options.data);
    DSLIDE_RETURN_IF_ERROR(read);
    file = std::move(*read);
  }
  NetContext context;
  const SchedulerAccess& to = options.scheduler;
  Result<DealerSocket> socket = DealerSocket::Connect(context, to.address, to.curve);
  DSLIDE_RETURN_IF_ERROR(socket);
  LogInfo(fmt::format("joining the scheduler at {}{}", to.address, to.curve ? ", encrypted" : ""));
  WarnIfUnresolved(to.address);
  WorkerShell shell(&context,
                    WorkerCore(DrawIncarnation(to.own()), options.name, CoresOfThisMachine(),
                               file ? &*file : nullptr),
                    std::move(*socket), to);
  return shell.Loop(signals);
}

Status WorkerShell::Loop(StopSignals* signals) {
  stop_fd_ = signals->fd();
  poller_.Add(scheduler_);
  poller_.AddFd(stop_fd_);
  Apply(core_.Start(clock_.Micros()));
  while (!exit_) {
    poller_.Wait(kPollMs);
    if (signals->Take()) {
      if (!core_.joined()) return Failed("stopped by a signal before joining");
      if (stopping_) return Failed("stopped at once; the batches in flight are trained by others");
      stopping_ = true;
      LogInfo("stopping: finishing the batches in flight");
      core_.RequestStop();
    }
    Receive(WorkerCore::kScheduler);
    for (uint32_t s = 0; s < servers_.size(); ++s) Receive(s);
    if (exit_) break;  // an outcome is final
    Apply(core_.Tick(UsageHeartbeat(bytes_sent_, bytes_received_), clock_.Micros()));
    if (silence_.Due(core_.heard_ms(), clock_.Millis())) {
      LogWarning("still no answer from the scheduler at " + scheduler_access_.address);
    }
    CheckHandshakes();
  }
  Apply(core_.Goodbye(UsageHeartbeat(bytes_sent_, bytes_received_)));
  return *exit_;
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
    Result<Message> message = Decode(*bytes);
    if (!message.ok()) {
      LogWarning("a reply is dropped: " + message.error().message);
      continue;
    }
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
    const Status refused = SchedulerRefusal(*failure, scheduler_access_);
    if (!refused.ok()) exit_ = refused;
  }
  for (std::optional<DealerSocket>& server : servers_) {
    if (server) (void)server->TakeFailure();
  }
}

void WorkerShell::Apply(WorkerCore::Effects effects) {
  for (const std::string& line : effects.notices) LogInfo(line);
  if (effects.connect) Dial(*effects.connect);
  for (WorkerCore::Outgoing& out : effects.send) {
    PassPointOf(out.message.body);
    if (auto* push = std::get_if<EmbedPush>(&out.message.body)) {
      lies_ |= PassFailpoint(Failpoint::kWorkerLie);
      if (lies_)
        std::ranges::transform(push->gradient.data, push->gradient.data.begin(), std::negate());
    }
    Bytes bytes = Encode(out.message, out.precision);
    bytes_sent_ += bytes.size();
    core_.NoteSent(out.message, bytes.size());
    // A message that does not fit the queue is sent again after cluster.request_timeout_ms.
    DealerSocket* const socket = SocketOf(out.to);
    if (socket == nullptr) continue;
    if (!socket->Send(std::move(bytes))) {
      LogWarning(fmt::format("the queue to {} is full; sending again later",
                             out.to == WorkerCore::kScheduler
                                 ? "the scheduler"
                                 : "the server at " + plan_[out.to].address));
    }
    if (std::holds_alternative<Join>(out.message.body)) {
      PassFailpoint(Failpoint::kWorkerJoin);
    }
  }
  if (effects.exit) exit_ = effects.exit;
}

// A server that cannot be dialled counts as one that does not answer; another plan may correct
// that.
std::optional<DealerSocket> WorkerShell::DialServer(const PlanServer& server) {
  Result<DealerSocket> socket = DialMember(*context_, access_, scheduler_access_, server);
  if (socket.ok()) return std::move(*socket);
  LogWarning(
      fmt::format("{} has an address that is of no use: {}; its batches wait for another "
                  "plan",
                  server.name, socket.error().message));
  return std::nullopt;
}

// Connections to servers that stay are kept.
void WorkerShell::Dial(const Plan& plan) {
  poller_.Clear();
  // A server that comes back at an address may have another key.
  const auto link_of = [](const PlanServer& server) {
    return std::pair(server.address, FingerprintOf(server.incarnation));
  };
  const bool encrypted = scheduler_access_.curve.has_value();
  std::map<std::pair<std::string, uint32_t>, DealerSocket> kept;
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!encrypted) plan_[s].incarnation = {};
    if (servers_[s]) kept.emplace(link_of(plan_[s]), std::move(*servers_[s]));
  }
  servers_.clear();
  for (PlanServer server : plan.servers) {
    if (!encrypted) server.incarnation = {};
    if (auto found = kept.extract(link_of(server))) {
      servers_.push_back(std::move(found.mapped()));
    } else {
      servers_.push_back(DialServer(server));
    }
  }
  plan_ = plan.servers;
  poller_.Add(scheduler_);
  poller_.AddFd(stop_fd_);
  for (std::optional<DealerSocket>& server : servers_) {
    if (server) poller_.Add(*server);
  }
}

}  // namespace dslide
