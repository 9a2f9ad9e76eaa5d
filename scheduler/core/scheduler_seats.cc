// Members that come and go, and the plan's seats: the part of SchedulerCore that keeps a cluster
// together.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/plan/seat_policy.h"

namespace dslide {

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
  if (stage_ == Stage::kFinished) return refuse(ErrorCode::kRefused, "the run is finished");
  const auto [member, is_new] = cluster_.OnJoin(from, message, reached, inputs_, now_ms, &out_);
  if (member == nullptr) return;
  const bool is_server = join.role == Role::kServer;
  if (is_server && cluster_.seats.Has(member->incarnation)) WelcomeServer(member, join, now_ms);
  if (join.role == Role::kWorker && InPass()) out_.Send(*member, plan());
  if (!is_new || join.role == Role::kObserver) return;
  out_.Notice(is_server ? fmt::format("{} joined at {}", member->name, join.address)
                        : fmt::format("{} joined", member->name));
}

// A server of the plan that this life of the scheduler has not met, or had given up.
void SchedulerCore::WelcomeServer(Member* member, const Join& join, int64_t now_ms) {
  cluster_.seats.Return(member->incarnation, now_ms);
  member->seated = true;
  member->ready = join.plan_version == plan_version();
  if (!member->ready) return out_.Send(*member, plan());
  if (pass().told()) out_.Send(*member, CommitSteps{*pass().told()});
  OnTakenUp({}, now_ms);  // its Ready was lost with its connection
}

void SchedulerCore::OnReady(Member* member, const Ready& ready, int64_t now_ms) {
  if (!member->seated || member->ready || ready.plan_version != plan_version()) return;
  member->ready = true;
  member->ready_ms = now_ms;
  if (change().switching()) return OnTakenUp(ready, now_ms);
  out_.Notice(fmt::format("{} is ready: {} rows, {} MB", member->name, ready.rows,
                          ready.memory_bytes >> 20));
}

void SchedulerCore::TendMembers(int64_t now_ms) {
  std::vector<Member> dead;  // copies: names change when members go
  for (const Member* member : roster().Dead(now_ms)) dead.push_back(*member);
  for (const Member& member : dead) {
    const auto silent_s = static_cast<double>(member.life.SilentMs(now_ms)) / 1000;
    cluster_.Drop(member, true,
                  fmt::format("has been silent for {:.1f} s, taken for dead", silent_s),
                  pass().Return(member.incarnation), now_ms, &out_);
  }
  cluster_.TendApplicants(now_ms, &out_);
  if (!InPass() || !Settled()) return;  // a server that takes a plan up answers late
  const int64_t silence_ms = int64_t{2} * inputs_.config.cluster.request_timeout_ms;
  cluster_.LeaveOut(
      cluster_.Unheard(silence_ms, now_ms),
      "does not answer the workers (do they reach the address that --advertise names?)", now_ms,
      &out_);
}

// Fills vacant seats, and lets the pass go on once every seat has a server that is ready.
void SchedulerCore::TendSeats(int64_t now_ms) {
  if (stage_ == Stage::kFinished) return;
  Seats& seats = cluster_.seats;
  if (seats.live() && !seats.Vacant(roster()).empty()) Interrupt(now_ms);
  const auto& checkpoint = checkpointer_.newest();
  SeatSituation situation{cluster_, inputs_.config};
  situation.checkpoint = checkpoint ? &*checkpoint : nullptr;
  situation.started_ms = started_ms_;
  situation.in_pass = InPass();
  situation.stopping = stop_wanted_;
  situation.writing = checkpointer_.Writing(roster());
  SeatDecision decision = DecideSeats(situation, now_ms);

  const uint32_t timeout_s = inputs_.config.cluster.join_timeout_s;
  const uint64_t lacking_bytes = decision.lacking_bytes.value_or(seats.lacking_bytes());
  if (seats.SetLacking(lacking_bytes) && lacking_bytes > 0) out_.Decide(WaitingLine(), now_ms);
  switch (decision.kind) {
    case SeatDecision::Kind::kWait:
      return;
    case SeatDecision::Kind::kGo:
      return Go(now_ms);
    case SeatDecision::Kind::kLeaveOut:
      return cluster_.LeaveOut(cluster_.Unready(), decision.why, now_ms, &out_);
    case SeatDecision::Kind::kBegin:
      return BeginGeneration(decision.servers, std::move(decision.slot_owner), now_ms);
    case SeatDecision::Kind::kGoOnWithout:
      for (const size_t seat : decision.vacant) {
        out_.Decide(fmt::format("{} is lost; it had no slots", plan().servers[seat].name), now_ms);
      }
      return SwitchTo(seats.GiveUp(decision.vacant), now_ms);
    case SeatDecision::Kind::kStop:
      return Finish(StoppedWithoutServers(), "stopped on request", now_ms);
    case SeatDecision::Kind::kNotEnough:
      return Finish(
          TryLater(fmt::format("{} after {} s (cluster.join_timeout_s)", WaitingLine(), timeout_s)),
          "not enough servers joined", now_ms);
    case SeatDecision::Kind::kNotReplaced:
      return Finish(
          TryLater(fmt::format("no server took the place of {} within {} s "
                               "(cluster.join_timeout_s); start the cluster again with --resume",
                               plan().servers[decision.vacant[0]].name, timeout_s)),
          "servers are missing", now_ms);
  }
}

// Servers and what counts go back to the newest complete checkpoint together. Ends a run that has
// lost its checkpoints.
void SchedulerCore::BeginGeneration(const std::vector<SeatedServer>& servers,
                                    std::vector<uint16_t> slot_owner, int64_t now_ms) {
  const auto& checkpoint = checkpointer_.newest();
  if (!checkpoint && !inputs_.ledger.last_checkpoint.empty()) {
    return Finish(CheckpointsAreGone(inputs_.ledger, inputs_.checkpoint_directory),
                  "the checkpoints are gone", now_ms);
  }
  const std::string name = checkpoint ? checkpoint->name : "";
  if (cluster_.seats.live()) {
    const uint64_t batches = pass().counted().batches;
    const uint64_t kept = checkpointer_.saved_batches().value_or(0);
    out_.Decide(fmt::format("all go back to {}, {} to be done again",
                            checkpoint ? "checkpoint " + name : "the beginning",
                            Plural(batches - std::min(batches, kept), "batch", "batches")),
                now_ms);
  }
  generation_ = Generation(checkpointer_.Restore());
  checkpointer_.BeginGeneration();
  balancer_.BeginGeneration();
  cluster_.seats.BeginGeneration(servers, std::move(slot_owner), checkpointer_.newest_directory(),
                                 &cluster_.roster, now_ms);
  for (const PlanServer& server : plan().servers) cluster_.loads.WarmUp(server.incarnation);
  stage_ = Stage::kLoading;
  const CountedWork& counted = pass().counted();
  out_.Record(LedgerRestored{name, counted.epoch, counted.batches, counted.samples, counted.done});
  out_.Record(LedgerPlanned{plan()});
  out_.SendToSeated(roster(), plan());
  out_.Notice(fmt::format("slot plan {}: {} over {}{}", plan_version(),
                          Plural(plan().slot_owner.size(), "slot"),
                          Plural(plan().servers.size(), "server"),
                          checkpoint ? fmt::format(", from checkpoint {}", name) : ""));
}

// The pass waits; batches in flight may still be reported.
void SchedulerCore::Interrupt(int64_t now_ms) {
  if (InPass()) {
    if (clock_.running()) clock_.Stop(roster().cpu_seconds(), now_ms);
    checkpointer_.GiveUp(now_ms);
    generation_.CancelChange(roster(), &out_);
  }
  stage_ = Stage::kGathering;
}

// All seats have servers that are ready.
void SchedulerCore::Go(int64_t now_ms) {
  const bool interrupted = Interrupted();
  stage_ = Stage::kInPass;
  if (interrupted) {
    if (Training()) clock_.Start(now_ms);
    out_.Notice("all servers are back as they were; going on");
  } else {
    checkpointer_.BeginInterval(now_ms);
    clock_.Start(now_ms);
    pass().Begin(inputs_, &out_);
    pass().Commit(inputs_, roster(), &out_);  // tells the servers where the run begins
  }
  Proceed(now_ms);
  out_.SendToAll(roster(), Role::kWorker, plan());
}

}  // namespace dslide
