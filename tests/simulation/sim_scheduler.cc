#include "tests/simulation/sim_scheduler.h"

#include <cstring>

namespace dslide::sim {
namespace {

constexpr int64_t kShellFarewellUs = 3 * kSecond;  // as the shell's
constexpr const char* kCheckpoints = "/checkpoints";

}  // namespace

SimScheduler::SimScheduler(SimWorld* world, SimHost* host, RunId run)
    : world_(*world),
      host_(*host),
      run_(run),
      incarnation_(world->DrawIncarnation()),
      core_(Inputs(run), host->now_ms()) {}

RunInputs SimScheduler::Inputs(RunId run) const {
  RunInputs inputs;
  inputs.config = world_.setup.config;
  inputs.run = run;
  inputs.train = &world_.setup.train.data;
  inputs.train_checksum = world_.setup.train.checksum;
  inputs.test = world_.setup.with_test ? &world_.setup.test : nullptr;
  inputs.held_out = world_.setup.held_out;
  inputs.checkpoint_directory = kCheckpoints;
  const uint64_t secret[] = {incarnation_.value, SubSeed(incarnation_.value, 1)};
  std::memcpy(inputs.lease_keys.receipts.data(), secret, sizeof(secret));
  SigningKey::Seed seed = {};
  std::memcpy(seed.data(), secret, sizeof(secret));
  inputs.lease_keys.tickets = SigningKey::FromSeed(seed);
  for (const LedgerEntry& entry : world_.disk.ledger) inputs.ledger.Apply(entry);
  if (const SimCheckpoint* newest = world_.disk.Newest()) {
    inputs.checkpoint = newest->manifest;
    inputs.checkpoint_path = std::string(kCheckpoints) + "/" + newest->manifest->name;
    inputs.checkpoints = world_.disk.CompleteNames();
  }
  return inputs;
}

void SimScheduler::Start() {
  world_.network.Bind(kSchedulerAddress, &host_,
                      [this](const PeerId& peer, Bytes bytes) { Receive(peer, bytes); });
}

void SimScheduler::Tick() {
  if (exit_) return;
  if (finished_us_ < 0) Apply(core_.Tick(host_.now_ms()));
  std::erase_if(probes_, [&](const auto& probe) {
    if (core_.AwaitsProbe(probe.first)) return false;
    world_.network.Close(probe.second);
    return true;
  });
  if (!host_.alive() || core_.phase() != SchedulerCore::Phase::kFinished) return;
  if (finished_us_ < 0) finished_us_ = host_.now_us();
  if (core_.AllLeft() || host_.now_us() - finished_us_ >= kShellFarewellUs) exit_ = core_.outcome();
}

// A second signal would end the run with an error, as its user wants it.
void SimScheduler::Stop() {
  if (!std::exchange(stopping_, true)) Apply(core_.RequestStop(host_.now_ms()));
}

void SimScheduler::Receive(const PeerId& peer, const Bytes& bytes) {
  if (exit_) return;
  const std::optional<Message> message = world_.Read(host_, bytes);
  if (!message) return;
  const size_t kind = message->body.index();
  world_.trace.Note(host_.name(), "takes {} of {:x} at {}", BodyName(kind),
                    message->envelope.incarnation.value, peer);
  if (world_.reached(&host_, Point::kBeforeMessage, kind)) return;
  SchedulerCore::Effects effects = core_.Handle(peer, *message, host_.now_ms());
  const uint32_t plan_version = message->envelope.plan_version;
  if (std::holds_alternative<Join>(message->body)) {
    world_.oracles.Joined(message->envelope.incarnation);
  }
  for (const LedgerEntry& entry : effects.ledger) {
    const auto* counted = std::get_if<LedgerCounted>(&entry);
    if (counted == nullptr) continue;
    world_.oracles.Counted(counted->batch, message->envelope.incarnation, plan_version);
  }
  if (world_.reached(&host_, Point::kBeforeEffects, kNoKind)) return;
  Apply(std::move(effects));
  if (host_.alive()) world_.reached(&host_, Point::kAfterMessage, kind);
}

// An entry that does more than count a batch takes all before it to the disk.
bool SimScheduler::AppendToLedger(const std::vector<LedgerEntry>& entries, bool sync) {
  for (const LedgerEntry& entry : entries) {
    world_.disk.ledger.push_back(entry);
    if (!std::holds_alternative<LedgerCounted>(entry)) {
      world_.disk.synced = world_.disk.ledger.size();
    }
    if (const auto* planned = std::get_if<LedgerPlanned>(&entry)) {
      world_.oracles.Planned(planned->plan);
    }
  }
  if (sync) world_.disk.synced = world_.disk.ledger.size();
  return !world_.reached(&host_, Point::kAfterLedger, kNoKind);
}

void SimScheduler::Apply(SchedulerCore::Effects effects) {
  const bool to_ledger = !effects.ledger.empty() || effects.sync_ledger;
  if (to_ledger && !AppendToLedger(effects.ledger, effects.sync_ledger)) return;
  std::optional<Status> manifest_written;
  for (SchedulerAction& one : effects.actions) {
    if (auto* send = std::get_if<action::Send>(&one)) {
      Send(std::move(*send));
    } else if (const auto* log = std::get_if<action::Log>(&one)) {
      world_.trace.Note(host_.name(), "- {}", log->event.text);
    } else if (const auto* debug = std::get_if<action::LogDebug>(&one)) {
      world_.trace.Note(host_.name(), "- {}", debug->event.text);
    } else if (const auto* probe = std::get_if<action::Probe>(&one)) {
      SendProbe(*probe);
    } else if (auto* write = std::get_if<action::WriteManifest>(&one)) {
      if (!StoreManifest(std::move(write->manifest))) return;
      manifest_written.emplace();
    }
  }
  if (manifest_written) Apply(core_.OnManifest(*manifest_written, host_.now_ms()));
}

void SimScheduler::Send(action::Send send) {
  const Message message{{run_, incarnation_, next_sequence_++, send.reply_to, core_.plan_version()},
                        std::move(send.body).Take()};
  if (const auto* drop = std::get_if<DropBatches>(&message.body)) {
    world_.oracles.Fenced(drop->incarnation);
  }
  Bytes bytes = Encode(message, FixedPrecision(core_.run().config.cluster.wire));
  core_.CountSent(message.body, bytes.size());
  world_.trace.Note(host_.name(), "sends {} to {}", BodyName(message.body), send.to);
  world_.network.Send(send.to, bytes);
}

void SimScheduler::SendProbe(const Admission::Probe& probe) {
  if (!probes_.contains(probe.server)) {
    probes_[probe.server] = world_.network.Dial(
        &host_, probe.address,
        [this, server = probe.server](Bytes bytes) { TakeProbeAnswer(server, bytes); });
  }
  const Message request{{run_, incarnation_, next_sequence_++, 0, 0}, StatusRequest{}};
  world_.network.Send(probes_.at(probe.server), Encode(request, WirePrecision::kFp32));
}

void SimScheduler::TakeProbeAnswer(Incarnation server, const Bytes& bytes) {
  const std::optional<Message> message = world_.Read(host_, bytes);
  if (exit_ || !message) return;
  const Incarnation who = message->envelope.incarnation;
  world_.trace.Note(host_.name(), "hears {:x} at the address of {:x}", who.value, server.value);
  Apply(core_.OnProbe(server, who, host_.now_ms()));
}

// False: the host is killed.
bool SimScheduler::StoreManifest(Manifest manifest) {
  if (world_.reached(&host_, Point::kBeforeManifest, kNoKind)) return false;
  const std::string directory = std::string(kCheckpoints) + "/" + manifest.name;
  world_.trace.Note(host_.name(), "writes the manifest of {}", directory);
  SimCheckpoint& checkpoint = world_.disk.checkpoints[directory];
  checkpoint.manifest = std::move(manifest);
  world_.oracles.ManifestWritten(directory, checkpoint);
  world_.disk.Prune(world_.setup.config.checkpoint.keep);
  return !world_.reached(&host_, Point::kAfterManifest, kNoKind);
}

}  // namespace dslide::sim
