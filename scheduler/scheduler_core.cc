#include "scheduler/scheduler_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/config/step.h"
#include "common/data/checksum.h"
#include "common/net/lease_batch.h"
#include "common/net/slot_plan.h"

namespace dslide {
namespace {

constexpr uint32_t kRetryMs = 1000;  // a worker that got no work asks again after so long
constexpr int64_t kServerSilenceMs = 30000;
constexpr int64_t kSendAgainMs = 10000;
constexpr uint32_t kEvaluationTop = kMaxMetricK;

// A worker is taken for dead after five heartbeats, but not before 5 s: machines are shared.
int64_t WorkerSilenceMs(const ClusterConfig& cluster) {
  return std::max<int64_t>(5000, int64_t{5} * cluster.heartbeat_ms);
}

}  // namespace

SchedulerCore::SchedulerCore(RunInputs inputs, int64_t now_ms)
    : inputs_(std::move(inputs)),
      started_ms_(now_ms),
      inverse_propensities_(InversePropensities(*inputs_.train)),
      train_checksum_(Checksum(*inputs_.train)) {
  if (inputs_.resume) {
    epoch_ = inputs_.resume->epoch;
    stats_.batches = inputs_.resume->batches;
    stats_.samples = inputs_.resume->samples;
    resumed_stats_ = stats_;
    last_checkpoint_ = inputs_.resume_directory;
    saved_batches_ = inputs_.resume->batches;
  }
}

SchedulerCore::Effects SchedulerCore::Take() { return std::exchange(effects_, Effects()); }

void SchedulerCore::Send(const Member& to, Body body) {
  effects_.send.push_back({to.peer, std::move(body), 0});
}

void SchedulerCore::Reply(const Member& to, const Message& request, Body body) {
  effects_.send.push_back({to.peer, std::move(body), request.envelope.sequence});
}

void SchedulerCore::Broadcast(Role role, const Body& body) {
  for (const Member* member : roster_.Of(role)) Send(*member, body);
}

void SchedulerCore::Notice(std::string line) { effects_.notices.push_back(std::move(line)); }

SchedulerCore::Effects SchedulerCore::Handle(const PeerId& from, const Message& message,
                                             int64_t now_ms) {
  const Envelope& envelope = message.envelope;
  const auto refuse = [&](ErrorCode code, std::string text) {
    effects_.send.push_back({from, ErrorReply{code, std::move(text)}, envelope.sequence});
    return Take();
  };
  if (const auto* join = std::get_if<Join>(&message.body)) {
    OnJoin(from, message, *join, now_ms);
    return Take();
  }
  if (envelope.run != inputs_.run) return refuse(ErrorCode::kWrongRun, "another run; join again");
  Member* member = roster_.Heard(envelope.incarnation, from, now_ms);
  if (member == nullptr) return refuse(ErrorCode::kWrongRun, "not in the roster; join again");

  if (const auto* ready = std::get_if<Ready>(&message.body)) {
    OnReady(*member, *ready);
    if (phase_ == Phase::kLoading) StartTraining(now_ms);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message.body)) {
    OnHeartbeat(*member, *heartbeat, message);
  } else if (std::holds_alternative<Leave>(message.body)) {
    OnLeave(*member, now_ms);
  } else if (const auto* request = std::get_if<LeaseRequest>(&message.body)) {
    OnLeaseRequest(*member, message, *request, now_ms);
  } else if (const auto* done = std::get_if<BatchDone>(&message.body)) {
    OnBatchDone(*member, *done, now_ms);
  } else if (const auto* answer = std::get_if<CheckpointDone>(&message.body)) {
    OnCheckpointDone(*member, *answer);
  } else if (std::holds_alternative<CheckpointNow>(message.body)) {
    OnCheckpointNow(*member, message);
  } else if (const auto* committed = std::get_if<StepsCommitted>(&message.body)) {
    OnStepsCommitted(*member, *committed, now_ms);
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    Notice(fmt::format("{}: {}", member->name, error->text));
    if (member->role == Role::kServer) {
      Finish(Failed(fmt::format("{}: {}", member->name, error->text)), "a server failed", now_ms);
    }
  } else {
    return refuse(ErrorCode::kRefused,
                  fmt::format("the scheduler does not answer {}", BodyName(message.body)));
  }
  FeedHungry(now_ms);
  return Take();
}

void SchedulerCore::OnJoin(const PeerId& from, const Message& message, const Join& join,
                           int64_t now_ms) {
  const auto refuse = [&](ErrorCode code, std::string text) {
    effects_.send.push_back({from, ErrorReply{code, std::move(text)}, message.envelope.sequence});
  };
  if (join.protocol != kProtocolVersion) {
    return refuse(ErrorCode::kIncompatible,
                  fmt::format("protocol {}, this scheduler speaks {}; use binaries of one version",
                              join.protocol, kProtocolVersion));
  }
  if (phase_ == Phase::kFinished) return refuse(ErrorCode::kRefused, "the run is finished");
  const bool known = roster_.Heard(message.envelope.incarnation, from, now_ms) != nullptr;
  const size_t servers = roster_.Count(Role::kServer);
  if (!known && join.role == Role::kServer && servers >= inputs_.config.cluster.servers) {
    return refuse(ErrorCode::kRefused,
                  fmt::format("the cluster has its {} servers (cluster.servers)", servers));
  }
  Member& member = roster_.Add(join, message.envelope.incarnation, from, now_ms);
  const bool is_server = join.role == Role::kServer;
  Reply(member, message,
        JoinReply{member.name, FormatConfig(inputs_.config), inputs_.train->size(),
                  train_checksum_});
  if (join.role == Role::kWorker && phase_ >= Phase::kTraining) Send(member, plan_);
  if (known) return;
  if (join.role != Role::kObserver) {
    Notice(is_server ? fmt::format("{} joined at {}", member.name, join.address)
                     : fmt::format("{} joined", member.name));
  }
  if (is_server && roster_.Count(Role::kServer) == inputs_.config.cluster.servers) PublishPlan();
}

void SchedulerCore::PublishPlan() {
  std::vector<PlanServer> servers;
  for (const Member* server : roster_.Of(Role::kServer)) {
    servers.push_back({server->name, server->address});
  }
  // By name, so that a cluster that starts again with the same names has the same slots.
  std::sort(servers.begin(), servers.end(),
            [](const PlanServer& a, const PlanServer& b) { return a.name < b.name; });
  plan_ = EqualPlan(1, inputs_.config.cluster.slots, std::move(servers));
  plan_.restore = inputs_.resume_directory;
  phase_ = Phase::kLoading;
  Broadcast(Role::kServer, plan_);
  Notice(fmt::format("slot plan 1: {} slots over {} servers", plan_.slot_owner.size(),
                     plan_.servers.size()));
}

void SchedulerCore::OnReady(Member& member, const Ready& ready) {
  if (member.role != Role::kServer || ready.plan_version != plan_.version) return;
  member.ready = true;
  Notice(fmt::format("{} is ready: {} rows, {} MB", member.name, ready.rows,
                     ready.memory_bytes >> 20));
}

void SchedulerCore::StartTraining(int64_t now_ms) {
  const auto servers = roster_.Of(Role::kServer);
  if (!std::all_of(servers.begin(), servers.end(), [](const Member* s) { return s->ready; })) {
    return;
  }
  Broadcast(Role::kWorker, plan_);
  last_checkpoint_ms_ = now_ms;
  training_since_ms_ = now_ms;
  phase_ = Phase::kTraining;
  if (epoch_ >= inputs_.config.train.epochs) {
    training_complete_ = true;
    Commit();
    AfterEpoch(now_ms);
    return;
  }
  StartEpoch();
  if (inputs_.resume) {
    for (const DoneBatch& done : inputs_.resume->done) {
      book_->Restore(done.unit, done.index);
      if (steps_)
        steps_->Done(uint64_t{done.unit} * inputs_.config.train.unit_batches + done.index);
    }
    Notice(fmt::format("resumed {} at epoch {}, {} of {} batches done", inputs_.resume->name,
                       epoch_ + 1, book_->done(), book_->batches()));
  }
  if (steps_) {
    Notice(fmt::format("synchronous training: steps of {} samples, staleness {}",
                       inputs_.config.train.target_batch, inputs_.config.train.staleness));
  }
  Commit();  // tells the servers where the run begins
  Proceed(now_ms);
}

void SchedulerCore::OnHeartbeat(Member& member, const Heartbeat& heartbeat,
                                const Message& message) {
  member.heartbeat = heartbeat;
  Reply(member, message, HeartbeatReply{});
}

// A worker hands its leases back. A server that leaves takes its slots' rows with it, so the run
// ends.
void SchedulerCore::OnLeave(const Member& member, int64_t now_ms) {
  const Member gone = member;
  if (phase_ == Phase::kFinished) return roster_.Remove(gone.incarnation);
  if (gone.role == Role::kWorker) return DropWorker(gone, "left");
  roster_.Remove(gone.incarnation);
  if (gone.role == Role::kServer && phase_ != Phase::kGathering) {
    Finish(Failed(fmt::format("{} at {} left; start the cluster again with --resume to continue "
                              "from the last checkpoint",
                              gone.name, gone.address)),
           "a server left", now_ms);
  }
}

void SchedulerCore::DropWorker(const Member& worker, const std::string& why) {
  const size_t leases = book_ ? book_->Return(worker.name) : 0;
  Notice(fmt::format("{} {}: {} leases returned", worker.name, why, leases));
  Broadcast(Role::kServer, DropBatches{worker.incarnation});
  roster_.Remove(worker.incarnation);
}

void SchedulerCore::OnLeaseRequest(Member& member, const Message& message,
                                   const LeaseRequest& request, int64_t now_ms) {
  std::erase_if(hungry_, [&](const Hungry& h) { return h.worker == member.incarnation; });
  const Hungry hungry{member.incarnation, message.envelope.sequence, request.has_data};
  if (GiveLease(member, hungry, now_ms)) return;
  Reply(member, message, LeaseWait{kRetryMs, phase_ == Phase::kFinished});
  hungry_.push_back(hungry);
}

// Those who had to wait get work as soon as there is some: asking again costs a slow link's worker
// a round trip that it has nothing to do in.
void SchedulerCore::FeedHungry(int64_t now_ms) {
  std::erase_if(hungry_, [&](const Hungry& hungry) {
    const Member* worker = roster_.Find(hungry.worker);
    return worker == nullptr || GiveLease(*worker, hungry, now_ms);
  });
}

bool SchedulerCore::GiveLease(const Member& member, const Hungry& hungry, int64_t now_ms) {
  const auto lease = NextLease(member.name, now_ms);
  if (!lease) return false;
  LeaseGrant grant;
  grant.lease = lease->id;
  grant.kind = phase_ == Phase::kTraining ? LeaseKind::kTrain : LeaseKind::kEvaluate;
  grant.epoch = epoch_;
  grant.unit = lease->unit;
  grant.top_k = kEvaluationTop;
  const bool by_numbers = hungry.has_data && grant.kind == LeaseKind::kTrain;
  for (const uint32_t index : lease->batches) {
    const uint64_t number = uint64_t{lease->unit} * inputs_.config.train.unit_batches + index;
    grant.batches.push_back(by_numbers ? BatchByNumbers(*order_, number, index)
                                       : BatchWithSamples(*order_, number, index));
  }
  effects_.send.push_back({member.peer, std::move(grant), hungry.sequence});
  return true;
}

std::optional<Lease> SchedulerCore::NextLease(const std::string& holder, int64_t now_ms) {
  if (!book_ || (phase_ == Phase::kTraining && stop_wanted_)) return std::nullopt;
  if (!steps_) {
    // Every batch is to be wholly in a checkpoint or not at all. One that waits for the end of an
    // evaluation holds back no lease of that.
    const bool paused = phase_ == Phase::kTraining && (checkpoint_wanted_ || round_);
    return paused ? std::nullopt : book_->Grant(holder, now_ms);
  }
  // Of a step that is not open yet nobody gets more than an equal share.
  const TrainConfig& train = inputs_.config.train;
  const uint64_t units = BatchesPerStep(train) / train.unit_batches;
  const uint64_t share = std::max<uint64_t>(1, units / std::max<size_t>(1, WorkerCount()));
  return book_->Grant(holder, now_ms, steps_->OpenBatches(), steps_->LeasableBatches(), share);
}

void SchedulerCore::OnBatchDone(Member& member, const BatchDone& done, int64_t now_ms) {
  const bool train = phase_ == Phase::kTraining;
  if ((!train && phase_ != Phase::kEvaluating) || !book_ || done.batch.epoch != epoch_) return;
  // Predictions of an evaluation whose lease expired; it had the number of this epoch.
  if (train && done.predictions.offsets.size() > 1) return;
  const uint64_t number =
      uint64_t{done.batch.unit} * inputs_.config.train.unit_batches + done.batch.index;
  if (!train) {
    // Judged before it counts: a bad report must leave the batch to be leased again.
    const uint64_t first = number * inputs_.config.train.batch;
    const uint64_t samples = done.predictions.offsets.size() - 1;
    const bool labels_known =
        std::all_of(done.predictions.ids.begin(), done.predictions.ids.end(),
                    [&](uint32_t id) { return id < inputs_.config.model.labels; });
    if (number >= book_->batches() || !labels_known ||
        samples != std::min<uint64_t>(inputs_.config.train.batch, order_->samples() - first)) {
      return;
    }
    if (book_->Done(done.lease, done.batch.unit, done.batch.index, now_ms)) {
      for (uint64_t i = 0; i < samples; ++i) {
        const auto& p = done.predictions;
        evaluator_->Add({p.ids.data() + p.offsets[i], p.offsets[i + 1] - p.offsets[i]},
                        order_->Sample(first + i).labels);
      }
    }
  } else if (book_->Done(done.lease, done.batch.unit, done.batch.index, now_ms)) {
    stats_.Add(done);
    member.samples += done.samples;
    if (steps_) {
      steps_->Done(number);
      Commit();
    }
  }
  Proceed(now_ms);
}

// Tells the servers which steps of the run count. While a checkpoint is due or being written none
// more are told of, so that all servers stand at the same step, also one that is asked again.
void SchedulerCore::Commit() {
  const bool held_back = checkpoint_wanted_ || stop_wanted_ || round_;
  if (!IsSynchronous(inputs_.config.train) || held_back) return;
  const uint64_t complete =
      steps_ ? steps_->committed()
             : epoch_ * StepsPerEpoch(inputs_.config.train, inputs_.train->size());
  if (told_ == complete) return;
  told_ = complete;
  if (steps_) counted_batches_ = steps_->CommittedBatches();
  Broadcast(Role::kServer, CommitSteps{complete});
}

// Batches of the epoch below this may be worked on: the servers take them, by what they were told.
uint64_t SchedulerCore::OpenBatches() const {
  const TrainConfig& train = inputs_.config.train;
  return counted_batches_ + (1 + static_cast<uint64_t>(train.staleness)) * BatchesPerStep(train);
}

// Whether all servers have applied what they were told counts.
bool SchedulerCore::AllCommitted() const {
  if (!IsSynchronous(inputs_.config.train)) return true;
  const auto servers = roster_.Of(Role::kServer);
  return std::all_of(servers.begin(), servers.end(),
                     [&](const Member* s) { return s->committed == told_; });
}

void SchedulerCore::OnStepsCommitted(Member& member, const StepsCommitted& done, int64_t now_ms) {
  if (member.role != Role::kServer || phase_ == Phase::kFinished) return;
  member.committed = std::max(member.committed.value_or(0), done.committed);
  if (phase_ == Phase::kTraining) Proceed(now_ms);
}

// Ends the pass if all its batches count, on all servers; else looks whether a checkpoint may
// begin.
void SchedulerCore::Proceed(int64_t now_ms) {
  const bool told = !steps_ || told_ == steps_->committed();
  if (book_ && book_->complete() && told && AllCommitted()) {
    FinishPass(now_ms);
  } else {
    MaybeCheckpoint(now_ms);
  }
}

SchedulerCore::Effects SchedulerCore::RequestStop(int64_t now_ms) {
  if (phase_ == Phase::kFinished) return Take();
  if (stop_wanted_) {
    Finish(Failed("stopped at once; what was trained since the last checkpoint is lost"),
           "stopped at once", now_ms);
  } else if (phase_ == Phase::kTraining) {
    stop_wanted_ = true;
    Notice(IsSynchronous(inputs_.config.train)
               ? "stopping: writing a checkpoint of the steps that count"
               : "stopping: waiting for the batches in flight, then writing a checkpoint");
    MaybeCheckpoint(now_ms);
  } else if (!last_checkpoint_.empty() && training_complete_) {
    Finish(Error{ErrorKind::kPreempted,
                 fmt::format("stopped before the final evaluation; the checkpoint is {}",
                             last_checkpoint_)},
           "stopped on request", now_ms);
  } else if (phase_ == Phase::kEvaluating) {
    // Between two epochs: give the evaluation up and save.
    stop_wanted_ = true;
    book_.reset();
    phase_ = Phase::kTraining;
    MaybeCheckpoint(now_ms);
  } else {
    Finish(TryLater("stopped before training began; nothing was saved"), "stopped", now_ms);
  }
  return Take();
}

SchedulerCore::Effects SchedulerCore::Tick(int64_t now_ms) {
  if (phase_ == Phase::kFinished) return Take();
  const ClusterConfig& cluster = inputs_.config.cluster;
  if (phase_ == Phase::kGathering &&
      now_ms - started_ms_ > int64_t{1000} * cluster.join_timeout_s) {
    Finish(TryLater(fmt::format("{} after {} s (cluster.join_timeout_s)", WaitingLine(),
                                cluster.join_timeout_s)),
           "not enough servers joined", now_ms);
    return Take();
  }
  DropSilentMembers(now_ms);
  SendAgain(now_ms);
  if (book_) {
    // Servers make these wait: for their step, or all while a checkpoint is written.
    if (steps_) book_->RenewFrom(round_ ? 0 : OpenBatches(), now_ms);
    const size_t expired = book_->Expire(now_ms, cluster.lease_timeout_ms);
    if (expired > 0) Notice(fmt::format("{} leases expired without progress", expired));
  }
  if (phase_ == Phase::kTraining) MaybeCheckpoint(now_ms);
  FeedHungry(now_ms);
  return Take();
}

// What servers have not answered is sent again: a broken connection may have swallowed it.
void SchedulerCore::SendAgain(int64_t now_ms) {
  if (now_ms - sent_again_ms_ < kSendAgainMs) return;
  sent_again_ms_ = now_ms;
  for (const Member* server : roster_.Of(Role::kServer)) {
    if (phase_ == Phase::kLoading && !server->ready) Send(*server, plan_);
    if (round_ && !round_->Answered(server->incarnation)) Send(*server, CheckpointRequestOfRound());
    if (told_ && server->committed != told_) Send(*server, CommitSteps{*told_});
  }
}

void SchedulerCore::DropSilentMembers(int64_t now_ms) {
  const auto silent = [&](Role role, int64_t limit_ms) {
    std::vector<Member> gone;
    for (const Member* m : roster_.Silent(role, now_ms, limit_ms)) gone.push_back(*m);
    return gone;
  };
  for (const Member& worker : silent(Role::kWorker, WorkerSilenceMs(inputs_.config.cluster))) {
    DropWorker(worker, fmt::format("has been silent for {:.1f} s, taken for dead",
                                   static_cast<double>(now_ms - worker.heard_ms) / 1000.0));
  }
  for (const Member& gone : silent(Role::kObserver, kServerSilenceMs)) {
    roster_.Remove(gone.incarnation);
  }
  // A server that loads or writes its slots is busy for long, but its network thread is not.
  for (const Member& server : silent(Role::kServer, kServerSilenceMs)) {
    if (phase_ == Phase::kGathering) {
      Notice(fmt::format("{} left before the start", server.name));
      roster_.Remove(server.incarnation);
      continue;
    }
    Finish(Failed(fmt::format("{} at {} has been silent for {} s; start the cluster again with "
                              "--resume to continue from the last checkpoint",
                              server.name, server.address, kServerSilenceMs / 1000)),
           "a server is gone", now_ms);
    return;
  }
}

void SchedulerCore::Finish(Status outcome, const std::string& reason, int64_t now_ms) {
  if (phase_ == Phase::kFinished) return;
  if (training_since_ms_ >= 0) Pause(now_ms);
  outcome_ = std::move(outcome);
  phase_ = Phase::kFinished;
  book_.reset();
  steps_.reset();
  const Shutdown shutdown{
      reason, outcome_.ok() ? 0u : static_cast<uint32_t>(ExitCode(outcome_.error().kind))};
  for (const Role role : {Role::kWorker, Role::kServer, Role::kObserver}) Broadcast(role, shutdown);
}

void SchedulerCore::NoteSent(const Body& body, size_t bytes) {
  const auto* grant = std::get_if<LeaseGrant>(&body);
  if (grant != nullptr && grant->kind == LeaseKind::kTrain) lease_bytes_ += bytes;
}

double SchedulerCore::LeaseBytesPerSample() const {
  const uint64_t samples = stats_here().samples;
  return samples == 0 ? 0.0 : static_cast<double>(lease_bytes_) / static_cast<double>(samples);
}

bool SchedulerCore::AllLeft() const {
  return roster_.Count(Role::kServer) == 0 && roster_.Count(Role::kWorker) == 0;
}

double SchedulerCore::Progress() const {
  const uint64_t per_epoch = BatchesPerEpoch(inputs_.config.train, inputs_.train->size());
  const uint64_t total = per_epoch * inputs_.config.train.epochs;
  if (total == 0) return 1.0;
  uint64_t done = per_epoch * epoch_;
  if (phase_ == Phase::kTraining && book_) done += book_->done();
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

int64_t SchedulerCore::TrainingMillis(int64_t now_ms) const {
  return training_ms_ + (training_since_ms_ >= 0 ? now_ms - training_since_ms_ : 0);
}

std::string SchedulerCore::WaitingLine() const {
  const uint32_t wanted = inputs_.config.cluster.servers;
  const size_t servers = roster_.Count(Role::kServer);
  if (phase_ == Phase::kLoading) {
    std::string names;
    for (const Member* server : roster_.Of(Role::kServer)) {
      if (server->ready) continue;
      if (!names.empty()) names += ", ";
      names += server->name;
    }
    return fmt::format("have {} of {} servers, loading slots: {}", servers, wanted, names);
  }
  if (servers < wanted) {
    return fmt::format("have {} of {} servers and {} workers, waiting for {} more servers", servers,
                       wanted, roster_.Count(Role::kWorker), wanted - servers);
  }
  return fmt::format("have {} of {} servers, waiting for workers", servers, wanted);
}

}  // namespace dslide
