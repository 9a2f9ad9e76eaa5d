#include "scheduler/core/scheduler_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/data/checksum.h"
#include "common/run/lease_batch.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "scheduler/balance/model_size.h"

namespace dslide {
namespace {

constexpr uint32_t kRetryMs = 1000;  // a worker that got no work asks again after so long
constexpr uint32_t kEvaluationTop = kMaxMetricK;

}  // namespace

SchedulerCore::SchedulerCore(RunInputs inputs, int64_t now_ms)
    : inputs_(std::move(inputs)),
      started_ms_(now_ms),
      roster_(inputs_.config.cluster.heartbeat_ms),
      admission_(inputs_.config.cluster.heartbeat_ms),
      inverse_propensities_(InversePropensities(*inputs_.train)),
      train_checksum_(Checksum(*inputs_.train)),
      loads_(inputs_.config.cluster.slots, SlotMemoryBytes(inputs_.config)),
      balancer_(inputs_.config),
      checkpointer_(inputs_),
      out_(inputs_.ledger.entries) {
  const LedgerState& ledger = inputs_.ledger;
  const std::string config = FormatConfig(inputs_.config);
  // Servers of an earlier life may hold its state, unless they would work by another configuration.
  live_ = ledger.live && ledger.run.config == config;
  plan_.version = ledger.plan.version;
  if (live_) {
    plan_ = ledger.plan;
    seats_.assign(plan_.servers.size(), {false, now_ms});
    for (const PlanServer& server : plan_.servers) loads_.Add(server.incarnation, 1, 0);
    epoch_ = ledger.epoch;
    batches_ = ledger.batches;
    samples_ = ledger.samples;
    done_ = ledger.done;
  } else if (checkpointer_.newest()) {
    GoBackToCheckpoint();
  }
  if (!ledger.opened || ledger.run.config != config) {
    out_.Record(LedgerOpened{inputs_.run, config, inputs_.train->size(), train_checksum_});
  }
}

SchedulerCore::Effects SchedulerCore::Drain() {
  CheckInvariants();
  return out_.Drain();
}

SchedulerCore::Effects SchedulerCore::Handle(const PeerId& from, const Message& message,
                                             int64_t now_ms) {
  const Envelope& envelope = message.envelope;
  const auto refuse = [&](ErrorCode code, std::string text) {
    out_.Reply(from, envelope.sequence, ErrorReply{code, std::move(text)});
    return Drain();
  };
  if (std::holds_alternative<Join>(message.body)) {
    OnJoin(from, message, false, now_ms);
    TendSeats(now_ms);
    ServePendingRequests(now_ms);
    return Drain();
  }
  if (envelope.run != inputs_.run) return refuse(ErrorCode::kWrongRun, "another run; join again");
  Member* member = roster_.Heard(envelope.incarnation, from, now_ms);
  if (member == nullptr) return refuse(ErrorCode::kWrongRun, "not in the roster; join again");
  const bool of_this_plan = envelope.plan_version == plan_.version;
  const bool current = OfThisGeneration(envelope);

  if (const auto* ready = std::get_if<Ready>(&message.body)) {
    OnReady(*member, *ready, now_ms);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message.body)) {
    OnHeartbeat(*member, *heartbeat, message, now_ms);
  } else if (std::holds_alternative<Leave>(message.body)) {
    OnLeave(*member, now_ms);
  } else if (const auto* request = std::get_if<LeaseRequest>(&message.body)) {
    OnLeaseRequest(*member, message, *request, now_ms);
  } else if (const auto* done = std::get_if<BatchDone>(&message.body)) {
    OnBatchDone(*member, message, *done, now_ms);
  } else if (const auto* answer = std::get_if<CheckpointDone>(&message.body)) {
    if (current) checkpointer_.OnServerFree(member->incarnation, *answer);
    if (of_this_plan && phase_ != Phase::kFinished) {
      FinishIfFailed(
          checkpointer_.OnDone(*member, *answer, WaitsForCheckpoint(), now_ms, &out_, roster_),
          now_ms);
    }
  } else if (std::holds_alternative<CheckpointNow>(message.body)) {
    OnCheckpointNow(*member, message, now_ms);
  } else if (const auto* committed = std::get_if<StepsCommitted>(&message.body)) {
    if (current) OnStepsCommitted(*member, *committed, now_ms);
  } else if (const auto* moved = std::get_if<MoveReady>(&message.body)) {
    if (of_this_plan) OnMoveReady(*member, *moved);
  } else if (const auto* drain = std::get_if<DrainServer>(&message.body)) {
    OnDrain(*member, message, *drain, now_ms);
  } else if (std::holds_alternative<StatusRequest>(message.body)) {
    out_.ReplyWithStatus(from, envelope.sequence);
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    if (current) OnError(*member, *error, now_ms);
  } else {
    return refuse(ErrorCode::kRefused,
                  fmt::format("the scheduler does not answer {}", BodyName(message.body)));
  }
  TendSeats(now_ms);
  // No work comes of signs of life, which are most of the messages.
  if (!std::holds_alternative<Heartbeat>(message.body)) ServePendingRequests(now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnProbe(Incarnation server, Incarnation who, int64_t now_ms) {
  if (const auto applicant = admission_.Answered(server, who)) {
    OnJoin(applicant->peer, applicant->join, true, now_ms);
    TendSeats(now_ms);
  }
  return Drain();
}

void SchedulerCore::TendApplicants(int64_t now_ms) {
  for (const auto& [applicant, why] : admission_.Expire(now_ms)) {
    out_.Reply(applicant.peer, applicant.join.envelope.sequence,
               ErrorReply{ErrorCode::kRefused, why});
    out_.Decide("a server is refused: " + why, now_ms);
  }
  out_.SendProbes(admission_.DueProbes(now_ms));
}

// `reached`: the scheduler has reached it at the address that it advertises.
void SchedulerCore::OnJoin(const PeerId& from, const Message& message, bool reached,
                           int64_t now_ms) {
  const auto& join = std::get<Join>(message.body);
  const auto refuse = [&](ErrorCode code, std::string text) {
    out_.Reply(from, message.envelope.sequence, ErrorReply{code, std::move(text)});
  };
  if (join.protocol != kProtocolVersion) {
    return refuse(ErrorCode::kIncompatible,
                  fmt::format("protocol {}, this scheduler speaks {}; use binaries of one version",
                              join.protocol, kProtocolVersion));
  }
  if (phase_ == Phase::kFinished) return refuse(ErrorCode::kRefused, "the run is finished");
  const Incarnation incarnation = message.envelope.incarnation;
  const bool known = roster_.Heard(incarnation, from, now_ms) != nullptr;
  const bool is_server = join.role == Role::kServer;
  const bool has_seat =
      live_ && std::any_of(plan_.servers.begin(), plan_.servers.end(),
                           [&](const PlanServer& s) { return s.incarnation == incarnation; });
  // Others may still be copying from a server that the last plan is without.
  const bool departs = is_server && live_ && !has_seat && join.plan_version != 0 &&
                       !gone_.contains(incarnation) && plan_.version != GenerationOf(plan_) &&
                       join.plan_version <= plan_.version &&
                       join.plan_version >= GenerationOf(plan_);
  if (is_server && join.plan_version != 0 && !has_seat && !departs) {
    return refuse(ErrorCode::kFenced, "its slots have gone to others; begin a new life");
  }
  if (is_server && !known) {
    if (const std::string why = admission_.WhyBarred(join.address, now_ms); !why.empty()) {
      return refuse(join.plan_version != 0 ? ErrorCode::kFenced : ErrorCode::kRefused, why);
    }
    if (const std::string why = WhyTooSmall(join); !why.empty()) {
      out_.Decide(fmt::format("a server at {} is refused: {}", join.address, why), now_ms);
      return refuse(ErrorCode::kIncompatible, why);
    }
    if (!reached && !has_seat && !departs) {
      admission_.Ask(from, message, now_ms);
      out_.SendProbes(admission_.DueProbes(now_ms));
      return;
    }
  }
  Member& member = roster_.Add(join, incarnation, from, now_ms);
  if (is_server && !known) loads_.Add(incarnation, join.cores, join.memory_bytes);
  if (departs) {
    member.draining = true;
    if (join.plan_version < plan_.version) out_.Send(member, plan_);
  }
  out_.Reply(
      member, message,
      JoinReply{member.name, FormatConfig(inputs_.config), inputs_.train->size(), train_checksum_});
  if (is_server && has_seat) OnServerJoined(member, join, now_ms);
  if (join.role == Role::kWorker && InPass()) out_.Send(member, plan_);
  if (known || join.role == Role::kObserver) return;
  out_.Notice(is_server ? fmt::format("{} joined at {}", member.name, join.address)
                        : fmt::format("{} joined", member.name));
}

void SchedulerCore::OnReady(Member& member, const Ready& ready, int64_t now_ms) {
  if (!member.seated || member.ready || ready.plan_version != plan_.version) return;
  member.ready = true;
  member.ready_ms = now_ms;
  if (switch_) return FinishPlanSwitch(ready, now_ms);
  out_.Notice(fmt::format("{} is ready: {} rows, {} MB", member.name, ready.rows,
                          ready.memory_bytes >> 20));
}

void SchedulerCore::OnHeartbeat(Member& member, const Heartbeat& heartbeat, const Message& message,
                                int64_t now_ms) {
  if (heartbeat.load && heartbeat.load->batches > 0) member.trained_ms = now_ms;
  if (heartbeat.load && phase_ == Phase::kTraining) {  // an evaluation costs otherwise
    loads_.Report(member.incarnation, *heartbeat.load, heartbeat.memory_used_bytes);
  }
  member.heartbeat = heartbeat;
  member.heartbeat.load.reset();
  if (message.envelope.plan_version != plan_.version) member.heartbeat.silent_servers.clear();
  if (heartbeat.longest_batch_us > 0) member.batch_us = heartbeat.longest_batch_us;
  if (member.seated && phase_ == Phase::kTraining && !IsSynchronous(inputs_.config.train)) {
    advisor_.RenewTables(member, inputs_.config, roster_, now_ms, &out_);
  }
  if (pause_ && heartbeat.batches_in_flight == 0) pause_->waiting.erase(member.incarnation);
  out_.Reply(member, message, OrdersFor(member, now_ms));
  // It missed the plan without it, or the others have gone back to a checkpoint since.
  if (member.draining && !member.seated && message.envelope.plan_version != plan_.version) {
    out_.Send(member, OfThisGeneration(message.envelope)
                          ? Body(plan_)
                          : Body(Shutdown{"its slots have gone to others", 0}));
  }
  // It missed the plan.
  if (member.role == Role::kWorker && InPass() && message.envelope.plan_version != plan_.version) {
    out_.Send(member, plan_);
  }
}

// A worker hands its leases back; a server's seat becomes vacant.
void SchedulerCore::OnLeave(const Member& member, int64_t now_ms) {
  const Member gone = member;
  if (phase_ == Phase::kFinished) return roster_.Remove(gone.incarnation);
  if (gone.role == Role::kWorker) return DropWorker(gone, false, "left", now_ms);
  if (gone.seated) return LoseServer(gone, true, "left", now_ms);
  if (gone.role == Role::kServer) out_.Depart(gone, false, "left", now_ms);
  roster_.Remove(gone.incarnation);
}

// What a server cannot go on after: its slots do not load, or the model diverged.
void SchedulerCore::OnError(const Member& member, const ErrorReply& error, int64_t now_ms) {
  out_.Notice(fmt::format("{}: {}", member.name, error.text));
  if (!member.seated) return;
  Finish(Failed(fmt::format("{}: {}", member.name, error.text)), "a server failed", now_ms);
}

void SchedulerCore::OnLeaseRequest(Member& member, const Message& message,
                                   const LeaseRequest& request, int64_t now_ms) {
  std::erase_if(pending_requests_,
                [&](const PendingRequest& h) { return h.worker == member.incarnation; });
  const PendingRequest pending{member.incarnation, message.envelope.sequence, request.has_data};
  const bool up_to_date = OfThisGeneration(message.envelope);
  if (up_to_date && GiveLease(member, pending, now_ms)) return;
  out_.Reply(member, message, LeaseWait{kRetryMs, phase_ == Phase::kFinished});
  if (up_to_date) {
    pending_requests_.push_back(pending);
  } else if (InPass()) {
    out_.Send(member, plan_);
  }
}

// Those who had to wait get work as soon as there is some: asking again costs a slow link's worker
// a round trip that it has nothing to do in.
void SchedulerCore::ServePendingRequests(int64_t now_ms) {
  std::erase_if(pending_requests_, [&](const PendingRequest& pending) {
    const Member* worker = roster_.Find(pending.worker);
    return worker == nullptr || GiveLease(*worker, pending, now_ms);
  });
}

bool SchedulerCore::GiveLease(const Member& member, const PendingRequest& pending, int64_t now_ms) {
  const auto lease = NextLease(member, now_ms);
  if (!lease) return false;
  advisor_.OnLease(member.incarnation, now_ms);
  LeaseGrant grant;
  grant.lease = lease->id;
  grant.kind = phase_ == Phase::kTraining ? LeaseKind::kTrain : LeaseKind::kEvaluate;
  grant.epoch = epoch_;
  grant.unit = lease->unit;
  grant.top_k = kEvaluationTop;
  const bool by_numbers = pending.has_data && grant.kind == LeaseKind::kTrain;
  for (const uint32_t index : lease->batches) {
    const uint64_t number = uint64_t{lease->unit} * inputs_.config.train.unit_batches + index;
    grant.batches.push_back(by_numbers ? BatchByNumbers(*order_, number, index)
                                       : BatchWithSamples(*order_, number, index));
  }
  out_.Reply(member.peer, pending.sequence, std::move(grant));
  return true;
}

// As many batches as the worker's speed is worth; once all are leased, copies of what others are
// slow with.
std::optional<Lease> SchedulerCore::NextLease(const Member& worker, int64_t now_ms) {
  if (!book_ || !InPass() || stop_wanted_) return std::nullopt;
  LeaseLimits limits;
  limits.batches = advisor_.LeaseBatches(worker.incarnation);
  if (steps_) {
    // Of a step that is not open yet nobody gets more than an equal share.
    const TrainConfig& train = inputs_.config.train;
    limits.open = steps_->OpenBatches();
    limits.share =
        std::max<uint64_t>(1, BatchesPerStep(train) / std::max<size_t>(1, WorkerCount()));
    limits.end = std::min(steps_->LeasableBatches(), lease_end_.value_or(book_->batches()));
  }
  auto lease = book_->Grant(worker.incarnation, now_ms, limits);
  if (!lease) {
    if (steps_) limits.end = std::min(limits.end, steps_->OpenBatches());
    const auto speed = [&](Incarnation holder) { return BatchesPerSecond(holder, now_ms); };
    lease = book_->LeaseBackup(worker.incarnation, now_ms, speed, limits);
  }
  if (lease) {
    const uint64_t first = uint64_t{lease->unit} * inputs_.config.train.unit_batches;
    leased_end_ = std::max(leased_end_, first + lease->batches.back() + 1);
  }
  return lease;
}

void SchedulerCore::OnBatchDone(Member& member, const Message& message, const BatchDone& done,
                                int64_t now_ms) {
  out_.Reply(member, message, Ack{});  // whatever becomes of it, it need not be sent again
  if (!OfThisGeneration(message.envelope) || !book_ || done.batch.epoch != epoch_) return;
  if (message.envelope.plan_version == plan_.version) proven_version_ = plan_.version;
  advisor_.OnBatch(member.incarnation, now_ms);
  if (pass() == Phase::kEvaluating) {
    CountEvaluated(done, now_ms);
  } else if (pass() == Phase::kTraining && done.predictions.offsets.size() <= 1) {
    CountTrained(member, done, now_ms);  // the others: of an evaluation whose lease expired
  }
  Proceed(now_ms);
}

void SchedulerCore::CountTrained(Member& member, const BatchDone& done, int64_t now_ms) {
  if (!book_->Done(done.lease, done.batch.unit, done.batch.index, now_ms)) return;
  out_.Record(LedgerCounted{done.batch, done.samples, member.name});
  batches_++;
  samples_ += done.samples;
  work_.Add(done);
  member.samples += done.samples;
  if (!steps_) return;
  steps_->Done(uint64_t{done.batch.unit} * inputs_.config.train.unit_batches + done.batch.index);
  Commit();
}

// Judged before it counts: a bad report must leave the batch to be leased again.
void SchedulerCore::CountEvaluated(const BatchDone& done, int64_t now_ms) {
  const TrainConfig& train = inputs_.config.train;
  const uint64_t number = uint64_t{done.batch.unit} * train.unit_batches + done.batch.index;
  const uint64_t first = number * train.batch;
  const TopKReply& p = done.predictions;
  const uint64_t samples = p.offsets.size() - 1;
  const bool labels_known = std::all_of(
      p.ids.begin(), p.ids.end(), [&](uint32_t id) { return id < inputs_.config.model.labels; });
  if (number >= book_->batches() || !labels_known ||
      samples != std::min<uint64_t>(train.batch, order_->samples() - first) ||
      !book_->Done(done.lease, done.batch.unit, done.batch.index, now_ms)) {
    return;
  }
  for (uint64_t i = 0; i < samples; ++i) {
    evaluator_->Add({p.ids.data() + p.offsets[i], p.offsets[i + 1] - p.offsets[i]},
                    order_->Sample(first + i).labels);
  }
}

SchedulerCore::Effects SchedulerCore::RequestStop(int64_t now_ms) {
  if (phase_ == Phase::kFinished) return Drain();
  if (stop_wanted_) {
    Finish(Failed("stopped at once; what was trained since the last checkpoint is lost"),
           "stopped at once", now_ms);
  } else if (!InPass()) {
    StopWithoutServers(now_ms);
  } else {
    stop_wanted_ = true;
    checkpointer_.WantAtOnce(now_ms);
    if (!checkpointer_.IsSaved(BatchesToSave())) out_.Notice("stopping: writing a checkpoint");
    MaybeCheckpoint(now_ms);
  }
  return Drain();
}

// Ends the run with what was saved before: without all servers there is no other checkpoint.
void SchedulerCore::StopWithoutServers(int64_t now_ms) {
  if (checkpointer_.newest()) {
    const Error stopped{
        ErrorKind::kPreempted,
        fmt::format("stopped while servers were missing; the checkpoint is {}", last_checkpoint())};
    return Finish(stopped, "stopped", now_ms);
  }
  Finish(
      TryLater(fmt::format("stopped {}; nothing was saved",
                           batches_ == 0 ? "before training began" : "while servers were missing")),
      "stopped", now_ms);
}

SchedulerCore::Effects SchedulerCore::Tick(int64_t now_ms) {
  if (phase_ == Phase::kFinished) return Drain();
  DropDeadMembers(now_ms);
  TendApplicants(now_ms);
  LeaveOutSilent(now_ms);
  TendSeats(now_ms);
  if (phase_ == Phase::kFinished) return Drain();
  SendAgain(now_ms);
  TendBalance(now_ms);
  Decide(now_ms);
  if (book_) {
    // Servers make these wait: for their step, or all while one of them is missing. So does a hold.
    if (!InPass() || pause_) {
      book_->RenewFrom(0, now_ms);
    } else if (steps_) {
      book_->RenewFrom(OpenBatches(), now_ms);
    }
    const size_t expired = book_->Expire(now_ms, inputs_.config.cluster.lease_timeout_ms);
    if (expired > 0) out_.Notice(fmt::format("{} leases expired without progress", expired));
  }
  MaybeCheckpoint(now_ms);
  ServePendingRequests(now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::LedgerFailed(const Status& status, int64_t now_ms) {
  if (phase_ == Phase::kFinished) phase_ = Phase::kGathering;  // nobody has been told
  Finish(status.error(), "the ledger could not be written", now_ms);
  out_.DropEntries();
  return Drain();
}

void SchedulerCore::NoteSent(const Body& body, size_t bytes) {
  const auto* grant = std::get_if<LeaseGrant>(&body);
  if (grant != nullptr && grant->kind == LeaseKind::kTrain) lease_bytes_ += bytes;
}

double SchedulerCore::LeaseBytesPerSample() const {
  return work_.samples == 0
             ? 0.0
             : static_cast<double>(lease_bytes_) / static_cast<double>(work_.samples);
}

bool SchedulerCore::AllLeft() const {
  return roster_.Count(Role::kServer) == 0 && roster_.Count(Role::kWorker) == 0;
}

double SchedulerCore::Progress() const {
  const uint64_t per_epoch = BatchesPerEpoch(inputs_.config.train, inputs_.train->size());
  const uint64_t total = per_epoch * inputs_.config.train.epochs;
  if (total == 0) return 1.0;
  uint64_t done = per_epoch * epoch_;
  if (pass() == Phase::kTraining) done += book_ ? book_->done() : done_.size();
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

int64_t SchedulerCore::TrainingMillis(int64_t now_ms) const {
  return training_ms_ + (training_since_ms_ >= 0 ? now_ms - training_since_ms_ : 0);
}

}  // namespace dslide
