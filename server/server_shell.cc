#include "server/server_shell.h"

#include <fmt/core.h>

#include "common/app/executable.h"
#include "common/base/address.h"
#include "common/base/cgroup.h"
#include "common/base/failpoint.h"
#include "common/base/overloaded.h"
#include "common/base/plural.h"
#include "common/checkpoint/layout.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/net/resolve.h"
#include "common/net/usage.h"
#include "common/run/slot_rows.h"
#include "server/base/events.h"
#include "server/gate/request_bytes.h"

namespace dslide {

namespace {

constexpr int kPollMs = 100;
constexpr int kTurnMessages = 64;
constexpr int64_t kTurnUs = 5000;

// Until the configuration is known; what a connection may have waiting follows from that.
RouterLimits LimitsFor(uint64_t memory_bytes) {
  RouterLimits limits;
  limits.message_bytes = kMaxMessageBytes;
  limits.all_bytes = std::max(limits.all_bytes, memory_bytes / 8);
  return limits;
}

// When a request has arrived.
void PassPointOf(const Body& body) {
  std::visit(
      Overloaded{
          [](const EmbedRequest&) { PassFailpoint(Failpoint::kServerEmbed); },
          [](const ActiveQuery&) { PassFailpoint(Failpoint::kServerQuery); },
          [](const GradientPush&) { PassFailpoint(Failpoint::kServerPush); },
          [](const EmbedPush& push) {
            PassFailpoint(Failpoint::kServerEmbedPush);
            if (push.next) PassFailpoint(Failpoint::kServerEmbed);
          },
          [](const SlotPull& pull) {
            PassFailpoint(pull.release ? Failpoint::kServerRelease : Failpoint::kServerMovePull);
          },
          [](const auto&) {},
      },
      body);
}

// Rows that need more memory than there is are on the disk.
Status LimitMemory(const ServerLoad& load, Executor* executor) {
  if (load.row_bytes == 0) return {};
  const auto rows_of = [&](const std::vector<SlotId>& slots) {
    // An executor without slots may get some.
    return 1 + static_cast<double>(RowsOfSlots(load.config, slots));
  };
  double all = 0;
  for (const std::vector<SlotId>& slots : load.slots) all += rows_of(slots);
  const double share = rows_of(load.slots[executor->local_index()]) / all;
  const auto shared = [share](uint64_t bytes) {
    return static_cast<uint64_t>(static_cast<double>(bytes) * share);
  };
  const RowDisk disk = {load.disk.directory, shared(load.disk.bytes)};
  const Result<RowPlaces> places = LimitMemory(
      executor->local_index(), disk, shared(load.row_bytes), executor->output().IndexRowBytes(),
      &executor->input().layer(), &executor->output().layer());
  DSLIDE_RETURN_IF_ERROR(places);
  if (places->rows == 0) return {};
  LogInfo(
      {event::kRowsOnDisk,
       fmt::format("executor {} has {} of {} rows in memory at a time, the others in {} ({} MB); "
                   "more memory is faster (cluster.memory_mb)",
                   executor->local_index(), places->in_memory, places->rows, disk.directory,
                   places->disk_bytes >> 20),
       {{"executor", executor->local_index()},
        {"rows_in_memory", places->in_memory},
        {"rows", places->rows},
        {"disk_bytes", places->disk_bytes}}});
  return {};
}

}  // namespace

ServerShell::ServerShell(NetContext* context, AccessListHolder* access, ServerCore core,
                         RouterSocket workers, DealerSocket scheduler,
                         SchedulerAccess scheduler_access, const ServerOptions& options)
    : context_(context),
      access_(access),
      core_(std::move(core)),
      workers_(std::move(workers)),
      scheduler_(std::move(scheduler)),
      scheduler_access_(std::move(scheduler_access)),
      hook_("checkpoint.shard_hook", options.hook) {}

Status ServerShell::Run(const ServerOptions& options, StopSignals* signals) {
  // Until the scheduler has told whom to let in, it alone is let in: it looks who answers here.
  AccessListHolder access;
  const SchedulerAccess& to = options.scheduler;
  if (to.curve) access.Set({{{TextOf(to.curve->peer), KeyRole::kScheduler}}});
  NetContext context(&access);
  Result<RouterSocket> workers =
      RouterSocket::Bind(context, options.bind, to.own(), LimitsFor(options.memory_bytes));
  DSLIDE_RETURN_IF_ERROR(workers);
  const auto address =
      AdvertisedAddress("cluster.server", workers->address(), options.advertise, to.address);
  DSLIDE_RETURN_IF_ERROR(address);
  if (IsLoopback(*address) && !IsLoopback(to.address)) {
    return BadInput(
        fmt::format("workers would be told {}, which other machines cannot reach; set --bind and "
                    "--advertise to an address of this machine's network",
                    *address));
  }
  Result<DealerSocket> scheduler = DealerSocket::Connect(context, to.address, to.curve);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  LogInfo(
      {event::kServing,
       fmt::format("serving at {}, joining the scheduler at {}{}; up to {} MB for rows and tables",
                   *address, to.address, to.curve ? ", encrypted" : "", options.memory_bytes >> 20),
       {{"address", *address}, {"scheduler", to.address}, {"memory_bytes", options.memory_bytes}}});
  WarnIfUnresolved(to.address);
  ServerCore core({DrawIncarnation(to.own()), options.name, *address, CoresOfThisMachine(),
                   options.memory_bytes, CgroupLimitsOfThisProcess().cores, options.row_disk});
  ServerShell shell(&context, &access, std::move(core), std::move(*workers), std::move(*scheduler),
                    to, options);
  shell.disk_bytes_ = options.disk_bytes;
  return shell.Loop(signals);
}

Status ServerShell::Loop(StopSignals* signals) {
  Poller poller;
  const auto wait = [&] {  // the executors and the store come and go
    poller.Clear();
    poller.Add(scheduler_);
    for (auto& [peer, server] : servers_) poller.Add(server);
    for (const int fd : {signals->fd(), pool_ ? pool_->fd() : -1, storage_ ? storage_->fd() : -1}) {
      if (fd >= 0) poller.AddFd(fd);
    }
    if (core_.AcceptsRequests()) poller.Add(workers_);
    poller.Wait(kPollMs);
  };
  Apply(core_.Start(clock_.Millis()));
  int stops = 0;
  while (!exit_) {
    wait();
    if (signals->Take()) {
      ++stops;
      Apply(core_.RequestStop(clock_.Millis()));
    }
    Receive();
    CollectFromExecutors();
    TendHook();
    Apply(core_.Tick(Usage(), clock_.Millis()));
    if (silence_.Due(core_.heard_ms(), clock_.Millis())) {
      LogWarning({event::kSchedulerSilent,
                  "still no answer from the scheduler at " + scheduler_access_.address});
    }
    if (const auto failure = scheduler_.TakeFailure(); failure && !exit_) {
      const Status refused = SchedulerRefusal(*failure, scheduler_access_);
      if (!refused.ok()) exit_ = refused;
    }
    for (auto& [peer, server] : servers_) (void)server.TakeFailure();  // dials again
    WarnOfRefusals(context_, &refusal_lines_, clock_.Millis());
    FollowConfig();
    ForgetServers();
  }
  Apply(core_.Goodbye(Usage()));
  if (stops < 2) WaitForHook(signals);  // the second signal means at once
  return *exit_;
}

Heartbeat ServerShell::Usage() const {
  Heartbeat beat = UsageHeartbeat(bytes_sent_, bytes_received_);
  beat.hook_runs = hook_.figures().runs;
  beat.hook_failures = hook_.figures().failures;
  beat.disk_bytes_per_second = disk_.bytes_per_second;
  beat.disk_sync_us = disk_.sync_us;
  return beat;
}

void ServerShell::TendHook() {
  for (const Event& event : hook_.Tick(MonotonicMillis())) LogWarning(event);
}

// What this server wrote last is worth the wait. A signal ends it, and so does a second failure.
void ServerShell::WaitForHook(StopSignals* signals) {
  if (!hook_.busy()) return;
  LogInfo({event::kHookWaits,
           "waiting for checkpoint.shard_hook with the last checkpoint; a signal ends the wait"});
  Poller pause;
  pause.AddFd(signals->fd());
  const bool done = hook_.Await(MonotonicMillis, [&] {
    if (signals->Take()) return false;
    TendHook();
    pause.Wait(kPollMs);
    return true;
  });
  if (done) return;
  LogWarning(
      {event::kHookFailed, "checkpoint.shard_hook has not succeeded with the last checkpoint"});
}

void ServerShell::FollowConfig() {
  if (core_.config() == nullptr) return;
  const uint64_t bytes = MostWaitingBytes(*core_.config());
  if (bytes != connection_bytes_) workers_.SetConnectionBytes(bytes);
  connection_bytes_ = bytes;
  const uint32_t most_workers = core_.config()->cluster.most_workers;
  if (most_workers != most_workers_) {
    workers_.SetConnections(RouterLimits::ConnectionsFor(most_workers));
  }
  most_workers_ = most_workers;
}

void ServerShell::Receive() {
  ReceiveFromScheduler();
  for (auto& [peer, server] : servers_) {
    while (auto bytes = server.Receive()) {
      bytes_received_ += bytes->size();
      Result<Message> message = Decode(*bytes);
      if (message.ok()) {
        Apply(core_.HandleServer(std::move(*message), clock_.Micros()));
      } else {
        LogWarning({event::kMessageMalformed,
                    fmt::format("from the server at {}: {}", peer.first, message.error().message)});
      }
    }
  }
  ReceiveFromPeers();
}

void ServerShell::ReceiveFromScheduler() {
  while (auto bytes = scheduler_.Receive()) {
    bytes_received_ += bytes->size();
    Result<Message> message = Decode(*bytes);
    if (!message.ok()) {
      LogWarning({event::kMessageMalformed, "from the scheduler: " + message.error().message});
      continue;
    }
    if (std::holds_alternative<JoinReply>(message->body)) NameRunInLog(message->envelope.run);
    if (const auto* access = std::get_if<AccessList>(&message->body)) {
      access_->Set(*access);
      continue;
    }
    Apply(core_.HandleScheduler(std::move(*message), clock_.Millis()));
  }
}

// A turn is short, so that peers that send without a break do not keep the rest of the loop from
// its work.
void ServerShell::ReceiveFromPeers() {
  const int64_t end_us = clock_.Micros() + kTurnUs;
  for (int taken = 0; taken < kTurnMessages && core_.AcceptsRequests(); ++taken) {
    if (clock_.Micros() >= end_us) break;
    auto received = workers_.Receive();
    if (!received) break;
    bytes_received_ += received->bytes.size();
    Result<Message> message = Decode(received->bytes);
    if (!message.ok()) {
      Apply(core_.HandleMalformed(received->peer, message.error(), clock_.Millis()));
      continue;
    }
    if (received->key) {
      const std::string why = access_->WhyRefused(*received->key, *message, Receiver::kServer);
      if (!why.empty()) {
        Warn(&refusal_lines_, {event::kMessageRefused, why});
        continue;
      }
    }
    PassPointOf(message->body);
    Apply(core_.HandleWorker(received->peer, std::move(*message), clock_.Micros()));
  }
}

// Closes the sockets to servers that a new plan is without, unless it still has to ask them.
void ServerShell::ForgetServers() {
  if (servers_plan_ == core_.plan_version()) return;
  servers_plan_ = core_.plan_version();
  std::erase_if(servers_, [&](const auto& server) {
    return !core_.MayAsk(server.first.first, server.first.second);
  });
}

// The store's outcome is taken before the executors' and handed over after them: the core hears of
// all marks before it hears that what was marked is stored.
void ServerShell::CollectFromExecutors() {
  auto saved = storage_ ? storage_->Collect() : std::nullopt;
  while (pool_) {
    auto outcome = pool_->Collect();
    if (!outcome) break;
    Apply(core_.HandleOutcome(std::move(*outcome), clock_.Micros()));
  }
  if (saved && saved->done.error.empty() && saved->job_id == saving_.job_id &&
      IsCheckpointName(saving_.name)) {
    hook_.Offer(saving_.directory, {"DSLIDE_SHARD=" + saving_.directory + "/" + saving_.shard});
  }
  if (saved && saved->done.error.empty()) disk_ = saved->disk;
  if (!saved) return;
  Apply(core_.HandleSaved(saved->job_id, std::move(saved->done), clock_.Millis(), saved->lost));
}

void ServerShell::Warn(LineLimit* limit, Event line) {
  const auto admitted = limit->Admit(std::move(line), clock_.Millis());
  if (admitted) LogWarning(*admitted);
}

void ServerShell::Apply(ServerCore::Actions actions) {
  const bool has_plan = core_.plan_version() != 0;  // else the executors are about to stop
  if (pool_ && has_plan) pool_->SetPlanVersion(core_.plan_version());
  for (ServerAction& action : actions) {
    std::visit([this](auto& one) { Execute(std::move(one)); }, action);
  }
}

void ServerShell::Execute(const server_action::Rename& rename) { RenameLog(rename.name); }

void ServerShell::Execute(const server_action::Log& log) { LogInfo(log.event); }

void ServerShell::Execute(server_action::LogWarning warning) {
  if (!warning.event.kind->by_peers) return LogWarning(warning.event);
  Warn(&peer_lines_, std::move(warning.event));
}

void ServerShell::Execute(const server_action::SendToScheduler& send) {
  Bytes bytes = Encode(send.message, WirePrecision::kFp32);
  bytes_sent_ += bytes.size();
  if (!scheduler_.Send(std::move(bytes))) {
    LogWarning({event::kQueueFull, "the queue to the scheduler is full"});
  }
  if (std::holds_alternative<Join>(send.message.body)) PassFailpoint(Failpoint::kServerJoin);
}

void ServerShell::Execute(server_action::SendToPeer send) {
  bytes_sent_ += send.bytes->size();
  PassFailpoint(Failpoint::kServerBeforeReply);
  // The worker may have died, and the server may have all rows: neither is an error.
  if (!workers_.Send(send.peer, std::move(send.bytes))) {
    Warn(&peer_lines_,
         {event::kPeerUnreachable, "a peer is gone or takes no replies; its reply is dropped"});
  }
}

void ServerShell::Execute(const server_action::SendToServer& send) {
  const std::pair peer(send.server.address, send.server.incarnation);
  auto link = servers_.find(peer);
  if (link == servers_.end()) {
    Result<DealerSocket> socket = DialMember(*context_, *access_, scheduler_access_, send.server);
    if (!socket.ok()) return LogWarning({event::kPeerUnreachable, socket.error().message});
    link = servers_.emplace(peer, std::move(*socket)).first;
  }
  Bytes bytes = Encode(send.message, WirePrecision::kFp32);
  bytes_sent_ += bytes.size();
  (void)link->second.Send(std::move(bytes));  // what has no answer is sent again
}

void ServerShell::Execute(ServerSave save) {
  saving_ = std::move(save);
  if (const std::string& read = hook_.figures().running; !read.empty()) {
    saving_.keep.push_back(read.substr(read.rfind('/') + 1));  // the hook's
  }
  storage_->StartSave(saving_, pool_.get());
}

void ServerShell::Execute(ServerWork work) {
  DSLIDE_CHECK(pool_);
  pool_->Submit(work.job_id, std::move(work.job));
}

void ServerShell::StopExecutors() {
  if (storage_) storage_->CancelLoad();
  pool_.reset();  // first: the executors put rows to the store
  storage_.reset();
}

void ServerShell::StartExecutors(const std::shared_ptr<const ServerLoad>& load) {
  LogInfo(
      {event::kExecutorsStarted,
       fmt::format("{}, {} kernels", Plural(load->slots.size(), "executor"), BestKernels().name),
       {{"executors", load->slots.size()}, {"kernels", std::string(BestKernels().name)}}});
  StopExecutors();
  CheckpointStore::Place place{load->server};
  place.disk_bytes = disk_bytes_;
  storage_ = std::make_unique<ServerStorage>(*load, std::move(place));
  const auto make = [load](uint32_t i) -> Result<std::unique_ptr<Executor>> {
    auto executor = std::make_unique<Executor>(load->config, load->train_samples, load->slots[i],
                                               Purpose::kTraining, BestKernels());
    executor->set_local_index(i);
    executor->set_most_batch_bytes(load->batch_bytes);
    DSLIDE_RETURN_IF_ERROR(LimitMemory(*load, executor.get()));
    return executor;
  };
  pool_ = std::make_unique<ExecutorPool>(static_cast<uint32_t>(load->slots.size()), make);
  pool_->SetPlanVersion(core_.plan_version());
  storage_->StartLoad(pool_.get());
}

}  // namespace dslide
