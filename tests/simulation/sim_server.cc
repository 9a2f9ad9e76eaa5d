#include "tests/simulation/sim_server.h"

namespace dslide::sim {
namespace {

constexpr int64_t kStopPatienceUs = 3 * kSecond;  // as the shell's

std::string AddressOf(const SimWorld& world, const SimHost& host) {
  return world.setup.fixed_addresses
             ? "sim://" + host.name()
             : fmt::format("sim://{}/{}", host.name(), host.life() + 1);  // of the life to come
}

}  // namespace

SimExecutors::SimExecutors(SimWorld* world, SimHost* host, const ServerCore::Load& load, Done done)
    : world_(*world), host_(*host), done_(std::move(done)), lanes_(load.slots.size()) {
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].executor = std::make_unique<SimExecutor>(
        world, fmt::format("{} executor {}", host->name(), i), load.config, load.train_samples,
        load.slots[i], load.first_executor + i);
  }
}

void SimExecutors::Submit(uint64_t ticket, const Job& job) {
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].tasks.push_back({ticket, job});
    if (!lanes_[i].busy) Next(i);
  }
}

size_t SimExecutors::queued() const {
  size_t queued = 0;
  for (const Lane& lane : lanes_) queued = std::max(queued, lane.tasks.size());
  return queued;
}

void SimExecutors::Next(uint32_t index) {
  Lane& lane = lanes_[index];
  lane.busy = !lane.tasks.empty();
  if (!lane.busy) return;
  host_.Post(world_.Draw(20, 20 * kMs), [this, index] {
    Lane& own = lanes_[index];
    const Task task = std::move(own.tasks.front());
    own.tasks.pop_front();
    Body part = task.job(*own.executor);
    if (!host_.alive()) return;
    host_.Post(10, [this, ticket = task.ticket, index, part = std::move(part)] {
      done_({ticket, index, part});
    });
    Next(index);
  });
}

SimServer::SimServer(SimWorld* world, SimHost* host)
    : world_(*world),
      host_(*host),
      address_(AddressOf(*world, *host)),
      core_({world->DrawIncarnation(), host->name(), address_, 2, 1 << 30}) {}

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
  if (core_.config() == nullptr) return Leave(TryLater("stopped by a signal"));
  host_.Post(kStopPatienceUs, [this] {
    if (!exit_) Leave(TryLater("stopped by a signal"));
  });
}

void SimServer::TakeFromScheduler(const Bytes& bytes) {
  if (exit_) return;
  Result<Message> message = Decode(bytes);
  if (!message.ok()) {
    return world_.oracles.Violated(host_.name() + " got a malformed message: " +
                                   message.error().message);
  }
  const size_t kind = message->body.index();
  world_.trace.Note(host_.name(), "takes {} from scheduler", BodyName(kind));
  if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
  Apply(core_.HandleScheduler(std::move(*message), host_.now_ms()));
  world_.reached(&host_, Point::kAfterMessage, kind);
}

void SimServer::TakeFromWorkers() {
  while (!exit_ && core_.AcceptsRequests() && !inbox_.empty()) {
    const auto [peer, bytes] = std::move(inbox_.front());
    inbox_.pop_front();
    Result<Message> message = Decode(bytes);
    if (!message.ok()) {
      world_.oracles.Violated(host_.name() + " got a malformed message: " +
                              message.error().message);
      continue;
    }
    const size_t kind = message->body.index();
    const Envelope envelope = message->envelope;
    world_.trace.Note(host_.name(), "takes {} {} of {:x}", BodyName(kind), envelope.sequence,
                      envelope.incarnation.value);
    if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
    ServerCore::Effects effects = core_.HandleWorker(peer, std::move(*message), host_.now_us());
    Apply(std::move(effects));
    if (!host_.alive() || world_.reached(&host_, Point::kAfterMessage, kind)) return;
  }
}

void SimServer::Apply(ServerCore::Effects effects) {
  for (const std::string& line : effects.notices) world_.trace.Note(host_.name(), "- {}", line);
  for (const Message& message : effects.to_scheduler) {
    world_.network.Send(scheduler_, Encode(message, WirePrecision::kFp32));
  }
  for (auto& [peer, bytes] : effects.to_workers) world_.network.Send(peer, bytes);
  if (effects.load) StartExecutors(*effects.load);
  if (effects.save) StartSave(*effects.save);
  if (effects.occupancy) {
    executors_->Submit(*effects.occupancy,
                       [](SimExecutor& e) -> Body { return e.executor().Occupancy(); });
  }
  for (const ServerCore::Work& work : effects.work) {
    executors_->Submit(work.ticket,
                       [sender = work.sender, request = work.request](SimExecutor& e) {
                         return e.Handle(sender, *request);
                       });
  }
  if (effects.exit && !exit_) Leave(*effects.exit);
}

void SimServer::Leave(Status outcome) {
  exit_ = std::move(outcome);
  Apply(core_.Goodbye({}));
}

void SimServer::StartExecutors(const ServerCore::Load& load) {
  executors_ = std::make_unique<SimExecutors>(
      &world_, &host_, load, [this](ExecutorPool::Outcome outcome) {
        if (exit_) return;
        Apply(core_.HandleOutcome(std::move(outcome), host_.now_us()));
        TakeFromWorkers();
      });
  executors_->Submit(load.ticket, [](SimExecutor& executor) { return executor.Load(nullptr); });
}

void SimServer::StartSave(const ServerCore::Save& save) {
  const auto missing = std::make_shared<uint32_t>(executors_->size());
  executors_->Submit(save.ticket, [this, save, missing](SimExecutor& executor) -> Body {
    SimShard& shard = world_.disk.checkpoints[save.directory].shards[save.shard];
    executor.Save(&shard);
    CheckpointDone done;
    if (--*missing == 0) done.rows = shard.rows.size();
    return done;
  });
}

}  // namespace dslide::sim
