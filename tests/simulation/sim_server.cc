#include "tests/simulation/sim_server.h"

#include "common/base/overloaded.h"

namespace dslide::sim {
namespace {

constexpr size_t kLateSenders = 4;
constexpr size_t kMostHeld = 16;  // of each worker when the run ends

// A checkpoint as one executor loads it.
class SimSource final : public StateSource {
 public:
  SimSource(SimExecutor* executor, const SimCheckpoint* checkpoint, SimStore* store, bool stored)
      : executor_(*executor), checkpoint_(*checkpoint), store_(store), stored_(stored) {}
  Status Load(Executor*) override { return executor_.Restore(checkpoint_, store_, stored_); }

 private:
  SimExecutor& executor_;
  const SimCheckpoint& checkpoint_;
  SimStore* store_;
  bool stored_;
};

std::string AddressOf(const SimWorld& world, const SimHost& host) {
  return world.setup.fixed_addresses
             ? "sim://" + host.name()
             : fmt::format("sim://{}/{}", host.name(), host.life() + 1);  // of the life to come
}

}  // namespace

SimExecutors::SimExecutors(SimWorld* world, SimHost* host, const ServerLoad& load, Done done)
    : world_(*world),
      host_(*host),
      done_(std::move(done)),
      backlog_(load.slots.size(), kQueued),
      lanes_(load.slots.size()) {
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].executor =
        std::make_unique<SimExecutor>(world, fmt::format("{} executor {}", host->name(), i),
                                      load.config, load.train_samples, load.slots[i], i);
  }
}

void SimExecutors::Submit(uint64_t job_id, const Job& job) {
  backlog_.Add({job_id, job});
  Feed();
}

void SimExecutors::Feed() {
  while (const std::optional<Task> task = backlog_.Next()) {
    for (uint32_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].tasks.push_back(*task);
      if (!lanes_[i].busy) Next(i);
    }
  }
}

size_t SimExecutors::batches_in_flight() const {
  size_t most = 0;
  for (const Lane& lane : lanes_) {
    most = std::max(most, lane.executor->executor().batches_in_flight());
  }
  return most;
}

// Executors that were replaced meanwhile do nothing more.
void SimExecutors::After(int64_t delay_us, std::function<void(SimExecutors&)> event) {
  host_.Post(delay_us, [self = weak_from_this(), event = std::move(event)] {
    if (const auto alive = self.lock()) event(*alive);
  });
}

void SimExecutors::Next(uint32_t index) {
  Lane& lane = lanes_[index];
  lane.busy = !lane.tasks.empty() || lane.executor->executor().snapshot_in_progress();
  if (!lane.busy) return;
  if (lane.tasks.empty()) {
    return After(world_.Draw(20, 2 * kMs), [index](SimExecutors& self) {
      self.Background(index);
      if (self.host_.alive()) self.Next(index);
    });
  }
  After(world_.Draw(20, world_.job_us), [index](SimExecutors& self) {
    Lane& own = self.lanes_[index];
    const Task task = std::move(own.tasks.front());
    own.tasks.pop_front();
    JobReply part = task.job(*own.executor);
    if (!self.host_.alive()) return;
    self.After(10, [job_id = task.job_id, index, part = std::move(part)](SimExecutors& then) {
      then.backlog_.Collected(index);
      then.Feed();
      then.done_({job_id, index, part});
    });
    self.Background(index);
    if (self.host_.alive()) self.Next(index);
  });
}

void SimExecutors::Background(uint32_t index) {
  Executor& executor = lanes_[index].executor->executor();
  if (!executor.snapshot_in_progress()) return;
  executor.AdvanceSnapshot(static_cast<uint32_t>(world_.Draw(1, 6)));
  world_.reached(&host_, Point::kMidSnapshot, kNoKind);
}

SimServer::SimServer(SimWorld* world, SimHost* host)
    : world_(*world),
      host_(*host),
      address_(AddressOf(*world, *host)),
      core_({world->DrawIncarnation(), host->name(),
             host->number() == world->setup.misnamed_server ? "sim://nowhere" : address_, 2,
             1 << 30}) {}

void SimServer::Start() {
  world_.network.Bind(address_, &host_, [this](const PeerId& peer, Bytes bytes) {
    inbox_.emplace_back(peer, std::move(bytes));
    TakeFromWorkers();
  });
  scheduler_ = world_.network.Dial(&host_, kSchedulerAddress,
                                   [this](Bytes bytes) { TakeFromScheduler(bytes); });
  Apply(core_.Start(host_.now_ms()));
}

void SimServer::Tick() {
  if (exit_) return;
  TakeFromWorkers();
  if (!exit_ && host_.alive()) Apply(core_.Tick({}, host_.now_ms()));
}

void SimServer::Stop() {
  if (!exit_) Apply(core_.RequestStop(host_.now_ms()));
}

void SimServer::TakeFromScheduler(const Bytes& bytes) {
  if (exit_) return;
  std::optional<Message> message = world_.Read(host_, bytes);
  if (!message) return;
  const size_t kind = message->body.index();
  world_.trace.Note(host_.name(), "takes {} from scheduler", BodyName(kind));
  if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
  const auto* drop = std::get_if<DropBatches>(&message->body);
  const auto dropped = drop == nullptr ? std::nullopt : std::optional(drop->incarnation);
  const ServerCore::Actions actions = core_.HandleScheduler(std::move(*message), host_.now_ms());
  if (Has<server_action::StartExecutors>(actions)) dropped_.clear();
  if (dropped && Has<ServerWork>(actions)) dropped_.insert(*dropped);
  Apply(actions);
  if (host_.alive()) world_.reached(&host_, Point::kAfterMessage, kind);
}

void SimServer::TakeFromServer(const Bytes& bytes) {
  if (exit_) return;
  std::optional<Message> message = world_.Read(host_, bytes);
  if (!message) return;
  const size_t kind = message->body.index();
  world_.trace.Note(host_.name(), "takes {} from a server", BodyName(kind));
  if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
  Apply(core_.HandleServer(std::move(*message), host_.now_us()));
  if (host_.alive()) world_.reached(&host_, Point::kAfterMessage, kind);
}

void SimServer::TakeFromWorkers() {
  while (!exit_ && core_.AcceptsRequests() && !inbox_.empty()) {
    const auto [peer, bytes] = std::move(inbox_.front());
    inbox_.pop_front();
    std::optional<Message> message = world_.Read(host_, bytes);
    if (!message) continue;
    const size_t kind = message->body.index();
    const Envelope envelope = message->envelope;
    const auto* pull = std::get_if<SlotPull>(&message->body);
    const bool release = pull != nullptr && pull->release;  // by whatever plan of the generation
    world_.trace.Note(host_.name(), "takes {} {} of {:x}", BodyName(kind), envelope.sequence,
                      envelope.incarnation.value);
    if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
    const ServerCore::Actions actions =
        core_.HandleWorker(peer, std::move(*message), host_.now_us());
    if (Has<ServerWork>(actions) && !release) CheckMayWork(envelope, kind);
    Apply(actions);
    if (!host_.alive() || world_.reached(&host_, Point::kAfterMessage, kind)) return;
  }
}

// No request of another plan, or of a worker that the scheduler dropped, gets to the executors.
void SimServer::CheckMayWork(const Envelope& envelope, size_t kind) {
  if (envelope.plan_version != core_.plan_version()) {
    world_.oracles.Violated(fmt::format("{}: {} of plan {} taken under plan {}", host_.name(),
                                        BodyName(kind), envelope.plan_version,
                                        core_.plan_version()));
  }
  if (dropped_.contains(envelope.incarnation)) {
    world_.oracles.Violated(
        fmt::format("{}: {} taken of a worker that was dropped", host_.name(), BodyName(kind)));
  }
}

void SimServer::Apply(const ServerCore::Actions& actions) {
  std::optional<Status> exit;
  for (const ServerAction& action : actions) {
    std::visit(Overloaded{
                   [&](const server_action::Log& log) {
                     world_.trace.Note(host_.name(), "- {}", log.event.text);
                   },
                   [&](const server_action::SendToScheduler& send) {
                     world_.network.Send(scheduler_, Encode(send.message, WirePrecision::kFp32));
                   },
                   [&](const server_action::SendToPeer& send) {
                     world_.network.Send(send.peer, *send.bytes);
                   },
                   [&](const server_action::SendToServer& send) {
                     SendToServer(send.server.address, send.message);
                   },
                   [&](const server_action::StopExecutors&) { executors_.reset(); },
                   [&](const server_action::StartExecutors& start) { StartExecutors(*start.load); },
                   [&](const ServerSave& save) { StartSave(save); },
                   [&](const server_action::GiveUpSave& give_up) { store_->GiveUp(give_up.why); },
                   [&](const ServerWork& work) {
                     executors_->Submit(work.job_id, [this, job = work.job](SimExecutor& executor) {
                       return Work(job, &executor);
                     });
                   },
                   [&](const server_action::Exit& last) { exit = last.outcome; },
                   [](const auto&) {},
               },
               action);
  }
  if (exit && !exit_) Leave(*std::move(exit));
}

void SimServer::SendToServer(const std::string& address, const Message& message) {
  auto link = servers_.find(address);
  if (link == servers_.end()) {
    const auto dialled =
        world_.network.Dial(&host_, address, [this](Bytes bytes) { TakeFromServer(bytes); });
    link = servers_.emplace(address, dialled).first;
  }
  world_.network.Send(link->second, Encode(message, WirePrecision::kFp32));
}

JobReply SimServer::Work(const ExecutorJob& job, SimExecutor* executor) {
  const uint32_t plan_version = core_.plan_version();
  if (std::holds_alternative<SharedSlotJob>(job)) {
    if (world_.reached(&host_, Point::kBeforeSlotJob, kNoKind)) return Done{};
    JobReply part = executor->Run(job, plan_version);
    world_.reached(&host_, Point::kAfterSlotJob, kNoKind);
    return part;
  }
  const auto* request = std::get_if<RequestJob>(&job);
  if (request == nullptr) return executor->Run(job, plan_version);
  const size_t kind = request->body->index();
  if (world_.reached(&host_, Point::kBeforeApply, kind)) return Done{};
  JobReply part = executor->Run(job, plan_version);
  if (!request->StaleUnder(plan_version)) world_.reached(&host_, Point::kAfterApply, kind);
  return part;
}

// Of lives of workers that are over the server holds nothing, but for what arrived late and where a
// DropBatches was lost.
void SimServer::CheckMemory() const {
  const size_t workers = world_.setup.workers;
  if (core_.senders() > 2 * workers + kLateSenders) {
    world_.oracles.Violated(fmt::format("{} keeps replies of {} senders, there are {} workers",
                                        host_.name(), core_.senders(), workers));
  }
  const size_t batches = executors_->batches_in_flight();
  if (core_.requests() > kMostHeld * workers || batches > kMostHeld * workers) {
    world_.oracles.Violated(fmt::format("{} holds {} requests and {} batches in flight at the end",
                                        host_.name(), core_.requests(), batches));
  }
}

void SimServer::Leave(Status outcome) {
  if (outcome.ok() && executors_ != nullptr) CheckMemory();
  exit_ = std::move(outcome);
  Apply(core_.Goodbye({}));
}

void SimServer::StartExecutors(const ServerLoad& load) {
  executors_ =
      std::make_shared<SimExecutors>(&world_, &host_, load, [this](ExecutorPool::Outcome outcome) {
        if (exit_) return;
        Apply(core_.HandleOutcome(std::move(outcome), host_.now_us()));
        if (host_.alive()) TakeFromWorkers();
      });
  store_ = std::make_unique<SimStore>(
      &world_, &host_, load.slots.size(), [this](uint64_t job_id, CheckpointDone done) {
        // Behind the executors' outcomes, which take 10 us.
        const int64_t delay_us = std::max<int64_t>(11, world_.Draw(1, 50 * kMs));
        host_.Post(delay_us, [this, job_id, done = std::move(done)] {
          if (exit_) return;
          Apply(core_.HandleSaved(job_id, done, host_.now_ms()));
        });
      });
  const bool stored = world_.random.Below(2) == 0;
  executors_->Submit(load.job_id, [this, load, stored](SimExecutor& executor) {
    return LoadExecutor(load, stored, &executor);
  });
}

// `stored`: the store is made of the checkpoint's files, and so has the rows.
JobReply SimServer::LoadExecutor(const ServerLoad& load, bool stored, SimExecutor* executor) {
  if (world_.reached(&host_, Point::kMidRestore, kNoKind)) return Done{};
  std::shared_ptr<StateSource> source;
  if (!load.restore.empty()) {
    const auto found = world_.disk.checkpoints.find(load.restore);
    if (found == world_.disk.checkpoints.end() || !found->second.manifest) {
      return Failed(load.restore + ": no complete checkpoint");
    }
    source = std::make_shared<SimSource>(executor, &found->second, store_.get(), stored);
  }
  return executor->Run(LoadJob{source}, core_.plan_version());
}

void SimServer::StartSave(const ServerSave& save) {
  store_->Begin(save);
  executors_->Submit(save.job_id, [this, committed = save.committed](SimExecutor& executor) {
    return executor.Mark(store_.get(), committed, core_.plan_version());
  });
}

}  // namespace dslide::sim
