#include "server/server_shell.h"

#include <fmt/core.h>

#include <atomic>
#include <filesystem>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/config/executable.h"
#include "common/net/usage.h"
#include "server/checkpoint.h"

namespace dslide {

namespace {

constexpr int kPollMs = 100;
constexpr int64_t kStopPatienceMs = 3000;
constexpr size_t kKeptShards = 3;  // one more than the scheduler keeps checkpoints

// Restores or initialises an executor; the first job after its start.
Body LoadExecutor(Executor& executor, const std::string& restore) {
  if (restore.empty()) {
    executor.Initialise();
  } else {
    const Result<CheckpointShards> shards = CheckpointShards::Open(restore);
    if (!shards.ok()) return ErrorReply{ErrorCode::kRefused, shards.error().message};
    const Status restored = shards->Restore(&executor);
    if (!restored.ok()) return ErrorReply{ErrorCode::kRefused, restored.error().message};
  }
  Layer& input = executor.input().layer();
  Layer& output = executor.output().layer();
  return Ready{0, uint64_t{input.map().size()} + output.map().size(),
               input.MemoryBytes() + output.MemoryBytes()};
}

// When a request has arrived.
void PassPointOf(const Body& body) {
  if (std::holds_alternative<EmbedRequest>(body)) PassFailpoint(Failpoint::kServerEmbed);
  if (std::holds_alternative<ActiveQuery>(body)) PassFailpoint(Failpoint::kServerQuery);
  if (std::holds_alternative<GradientPush>(body)) PassFailpoint(Failpoint::kServerPush);
  if (const auto* push = std::get_if<EmbedPush>(&body)) {
    PassFailpoint(Failpoint::kServerEmbedPush);
    if (push->next) PassFailpoint(Failpoint::kServerEmbed);
  }
}

}  // namespace

ServerShell::ServerShell(ServerCore core, RouterSocket workers, DealerSocket scheduler)
    : core_(std::move(core)), workers_(std::move(workers)), scheduler_(std::move(scheduler)) {}

Status ServerShell::Run(const ServerOptions& options, StopSignals* signals) {
  NetContext context;
  Result<RouterSocket> workers = RouterSocket::Bind(context, options.bind);
  DSLIDE_RETURN_IF_ERROR(workers);
  const auto address = AdvertisedAddress("cluster.server", workers->address(), options.advertise);
  DSLIDE_RETURN_IF_ERROR(address);
  if (IsLoopback(*address) && !IsLoopback(options.scheduler)) {
    return BadInput(
        fmt::format("workers would be told {}, which other machines cannot reach; set --bind and "
                    "--advertise to an address of this machine's network",
                    *address));
  }
  Result<DealerSocket> scheduler = DealerSocket::Connect(context, options.scheduler);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  LogInfo(fmt::format("serving at {}, joining the scheduler at {}", *address, options.scheduler));
  ServerCore core(
      {DrawIncarnation(), options.name, *address, CoresOfThisMachine(), MemoryOfThisMachine()});
  ServerShell shell(std::move(core), std::move(*workers), std::move(*scheduler));
  return shell.Loop(signals);
}

Status ServerShell::Loop(StopSignals* signals) {
  Poller all;   // everything that there may be to do
  Poller busy;  // while no requests are taken
  all.Add(workers_);
  for (Poller* poller : {&all, &busy}) {
    poller->Add(scheduler_);
    poller->AddFd(signals->fd());
  }
  bool polls_pool = false;
  int64_t leave_ms = 0;  // 0: not asked to stop
  Apply(core_.Start(MonotonicMillis()));
  while (!exit_) {
    (core_.AcceptsRequests() ? all : busy).Wait(kPollMs);
    if (signals->Take()) {
      // The scheduler may be stopping as well, and its checkpoint needs this server: it stays for a
      // while, or until a second signal.
      const int64_t now_ms = MonotonicMillis();
      leave_ms = leave_ms == 0 && core_.config() != nullptr ? now_ms + kStopPatienceMs : now_ms;
    }
    if (leave_ms != 0 && MonotonicMillis() >= leave_ms) exit_ = TryLater("stopped by a signal");
    while (auto bytes = scheduler_.Receive()) {
      bytes_received_ += bytes->size();
      Result<Message> message = Decode(*bytes);
      if (!message.ok()) {
        LogWarning("from the scheduler: " + message.error().message);
        continue;
      }
      Apply(core_.HandleScheduler(std::move(*message), MonotonicMillis()));
    }
    while (core_.AcceptsRequests()) {
      auto received = workers_.Receive();
      if (!received) break;
      bytes_received_ += received->second.size();
      Result<Message> message = Decode(received->second);
      if (message.ok()) PassPointOf(message->body);
      Apply(message.ok()
                ? core_.HandleWorker(received->first, std::move(*message), MonotonicMicros())
                : core_.HandleMalformed(received->first, message.error()));
    }
    if (pool_ && !polls_pool) {
      all.AddFd(pool_->fd());
      busy.AddFd(pool_->fd());
      polls_pool = true;
    }
    while (pool_) {
      auto outcome = pool_->Collect();
      if (!outcome) break;
      Apply(core_.HandleOutcome(std::move(*outcome), MonotonicMicros()));
    }
    Apply(core_.Tick(UsageHeartbeat(bytes_sent_, bytes_received_), MonotonicMillis()));
  }
  Apply(core_.Goodbye(UsageHeartbeat(bytes_sent_, bytes_received_)));
  return *exit_;
}

void ServerShell::Send(const Message& message) {
  Bytes bytes = Encode(message, WirePrecision::kFp32);
  bytes_sent_ += bytes.size();
  if (!scheduler_.Send(std::move(bytes))) LogWarning("the queue to the scheduler is full");
  if (std::holds_alternative<Join>(message.body)) PassFailpoint(Failpoint::kServerJoin);
}

void ServerShell::Apply(ServerCore::Effects effects) {
  for (const std::string& line : effects.notices) LogInfo(line);
  for (const Message& message : effects.to_scheduler) Send(message);
  for (auto& [peer, bytes] : effects.to_workers) {
    bytes_sent_ += bytes.size();
    PassFailpoint(Failpoint::kServerBeforeReply);
    if (!workers_.Send(peer, std::move(bytes)))
      LogWarning("a worker is gone; its reply is dropped");
  }
  if (effects.load) StartExecutors(*effects.load);
  if (effects.save) StartSave(*effects.save);
  if (effects.occupancy && !pool_->Submit(*effects.occupancy, [](Executor& executor) -> Body {
        return executor.Occupancy();
      })) {
    Apply(core_.Reject(*effects.occupancy));
  }
  for (const ServerCore::Work& work : effects.work) {
    const bool submitted =
        pool_ &&
        pool_->Submit(work.ticket, [sender = work.sender, request = work.request](Executor& e) {
          return e.Handle(sender, *request);
        });
    if (!submitted) Apply(core_.Reject(work.ticket));
  }
  if (effects.exit) exit_ = effects.exit;
}

void ServerShell::StartExecutors(const ServerCore::Load& load) {
  LogInfo(fmt::format("{} executors, {} kernels", load.slots.size(), BestKernels().name));
  const auto shared = std::make_shared<const ServerCore::Load>(load);
  pool_ = std::make_unique<ExecutorPool>(
      static_cast<uint32_t>(load.slots.size()), [shared](uint32_t i) {
        return std::make_unique<Executor>(shared->config, shared->train_samples, shared->slots[i],
                                          shared->first_executor + i, Purpose::kTraining,
                                          BestKernels());
      });
  pool_->Submit(load.ticket,
                [shared](Executor& executor) { return LoadExecutor(executor, shared->restore); });
}

// All executors write into one database; the last one to finish closes it.
void ServerShell::StartSave(const ServerCore::Save& save) {
  struct Shared {
    std::unique_ptr<CheckpointWriter> writer;
    std::atomic<uint32_t> missing;
  };
  auto created = CheckpointWriter::Create(save.directory + "/" + save.shard);
  std::string failure = created.ok() ? "" : created.error().message;
  const auto shared = std::make_shared<Shared>();
  shared->missing = pool_->size();
  if (created.ok()) shared->writer = std::move(*created);
  const bool submitted = pool_->Submit(save.ticket, [shared, failure](Executor& executor) -> Body {
    if (!failure.empty()) return ErrorReply{ErrorCode::kRefused, failure};
    SaveExecutor(executor, shared->writer.get());
    if (--shared->missing > 0) return CheckpointDone{};
    const auto totals = shared->writer->Finish();
    if (!totals.ok()) return ErrorReply{ErrorCode::kRefused, totals.error().message};
    CheckpointDone done;
    done.rows = totals->rows;
    done.bytes = totals->bytes;
    return done;
  });
  if (!submitted) return Apply(core_.Reject(save.ticket));
  // On a disk of its own nobody else removes this server's old shards.
  saved_.push_back(save.directory + "/" + save.shard);
  if (saved_.size() <= kKeptShards) return;
  std::error_code error;
  std::filesystem::remove_all(saved_.front(), error);
  std::filesystem::remove(std::filesystem::path(saved_.front()).parent_path(), error);  // if empty
  saved_.pop_front();
}

}  // namespace dslide
