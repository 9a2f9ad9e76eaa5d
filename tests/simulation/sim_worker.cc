#include "tests/simulation/sim_worker.h"

namespace dslide::sim {

SimWorker::SimWorker(SimWorld* world, SimHost* host, const TrainingFile* file)
    : world_(*world), host_(*host), core_(world->DrawIncarnation(), host->name(), 2, file) {}

void SimWorker::Start() {
  scheduler_ = world_.network.Dial(&host_, kSchedulerAddress,
                                   [this](Bytes bytes) { Receive(WorkerCore::kScheduler, bytes); });
  Apply(core_.Start(host_.now_us()));
}

void SimWorker::Tick() {
  if (!exit_) Apply(core_.Tick({}, host_.now_us()));
}

// As the shell: a second signal, or one before it has joined, ends it at once.
void SimWorker::Stop() {
  if (exit_) return;
  if (!core_.joined() || stopping_) return Leave({});
  stopping_ = true;
  core_.RequestStop();
}

void SimWorker::Receive(uint32_t from, const Bytes& bytes) {
  if (exit_) return;
  std::optional<Message> message = world_.Read(host_, bytes);
  if (!message) return;
  const size_t kind = message->body.index();
  world_.trace.Note(host_.name(), "takes {} (reply to {}) from {}", BodyName(kind),
                    message->envelope.reply_to,
                    from == WorkerCore::kScheduler ? "scheduler" : fmt::format("server {}", from));
  if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
  Apply(core_.Handle(from, std::move(*message), bytes.size(), host_.now_us()));
  world_.reached(&host_, Point::kAfterMessage, kind);
}

void SimWorker::Apply(WorkerCore::Effects effects) {
  for (const Event& event : effects.notices) {
    world_.trace.Note(host_.name(), "- {}", event.text);
  }
  for (const Event& event : effects.failed_batches) {
    world_.trace.Note(host_.name(), "- {}", event.text);
  }
  if (effects.connect) Dial(*effects.connect);
  for (WorkerCore::Outgoing& out : effects.send) {
    Bytes bytes = Encode(out.message, out.precision);
    core_.NoteSent(out.message, bytes.size());
    const bool to_scheduler = out.to == WorkerCore::kScheduler;
    if (!to_scheduler && out.to >= servers_.size()) continue;
    world_.network.Send(to_scheduler ? scheduler_ : servers_[out.to], std::move(bytes));
  }
  if (effects.exit && !exit_) Leave(*effects.exit);
}

void SimWorker::Leave(Status outcome) {
  exit_ = std::move(outcome);
  Apply(core_.Goodbye({}));
}

void SimWorker::Dial(const Plan& plan) {
  for (const SimNetwork::LinkId link : servers_) world_.network.Close(link);
  servers_.clear();
  for (uint32_t s = 0; s < plan.servers.size(); ++s) {
    servers_.push_back(world_.network.Dial(&host_, plan.servers[s].address,
                                           [this, s](Bytes bytes) { Receive(s, bytes); }));
  }
}

}  // namespace dslide::sim
