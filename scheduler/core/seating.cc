#include "scheduler/core/seating.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/plural.h"
#include "scheduler/base/events.h"
#include "scheduler/core/plan_switch.h"
#include "scheduler/core/recovery.h"
#include "scheduler/core/run_course.h"
#include "scheduler/core/run_end.h"
#include "scheduler/plan/seat_policy.h"

namespace dslide {
namespace {

constexpr size_t kMostDropped = 32;  // dead workers in a tick: every server is told of each

// A server of the plan that this life of the scheduler has not met, or had given up, or that asks
// again: then nothing is taken back that it has said before.
void WelcomeServer(RunState* run, Member* member, const Join& join, int64_t now_ms) {
  if (!member->seated) run->cluster.seats.Return(member->incarnation, now_ms);
  member->seated = true;
  if (join.plan_version != run->plan().version) return run->out.Send(*member, run->plan());
  if (!member->ready) member->ready_ms = now_ms;
  member->ready = true;
  run->pass().TellCommitted(*member, &run->out);
  OnTakenUp(run, {}, now_ms);  // its Ready was lost with its connection
}

// Whether the epoch that counts as done was not evaluated: something came in between.
bool NeedsEvaluation(const RunState& run) {
  const CountedWork& counted = run.pass().counted();
  return run.inputs.HeldOutSamples() > 0 && counted.epoch > 0 && counted.done.empty() &&
         !run.held_out.Has(counted.epoch);
}

// All seats have servers that are ready.
void Go(RunState* run, int64_t now_ms) {
  const bool interrupted = run->Interrupted();
  run->Enter(run->phase == ClusterPhase::kGathering ? ClusterEvent::kServersBack
                                                    : ClusterEvent::kServersReady);
  if (interrupted) {
    if (run->Training()) run->clock.Start(now_ms);
    run->out.Notice({event::kServersBack, "all servers are back as they were; going on"});
  } else {
    run->checkpointer.BeginInterval(now_ms);
    run->clock.Start(now_ms);
    run->pass().Begin(run->inputs, &run->out, NeedsEvaluation(*run));
    // Tells the servers where the run begins; of a stream, its segment does so if some of it
    // counts.
    const bool counts = !run->pass().counted().done.empty();
    if (!run->inputs.is_stream() || !counts)
      run->pass().Commit(run->inputs, run->roster(), &run->out);
  }
  Proceed(run, now_ms);
  run->out.SendToAll(run->roster(), Role::kWorker, run->plan());
}

}  // namespace

void OnJoin(RunState* run, const PeerId& from, const Message& message, bool reached,
            int64_t now_ms) {
  const auto& join = std::get<Join>(message.body);
  const bool banned =
      join.role == Role::kWorker && run->trust.HasExcluded(PlainName(join.name), from);
  const auto [member, is_new] = run->cluster.OnJoin({.from = from,
                                                     .message = message,
                                                     .reached = reached,
                                                     .run_finished = run->Finished(),
                                                     .banned = banned},
                                                    run->inputs, now_ms, &run->out);
  if (member == nullptr) return;
  const bool is_server = join.role == Role::kServer;
  if (is_server && run->cluster.seats.Has(member->incarnation))
    WelcomeServer(run, member, join, now_ms);
  if (join.role == Role::kWorker && run->InPass()) run->out.Send(*member, run->plan());
  if (!is_new || join.role == Role::kObserver) return;
  run->out.Notice(
      {event::kMemberJoined,
       is_server ? fmt::format("{} joined at {}", member->name, join.address)
                 : fmt::format("{} joined", member->name),
       {{"name", member->name}, {"role", std::string(is_server ? "server" : "worker")}}},
      now_ms);
}

void OnReady(RunState* run, Member* member, const Ready& ready, int64_t now_ms) {
  if (!member->seated || member->ready || ready.plan_version != run->plan().version) return;
  member->ready = true;
  member->ready_ms = now_ms;
  if (run->change().switching()) return OnTakenUp(run, ready, now_ms);
  run->out.Notice(
      {event::kMemberReady,
       fmt::format("{} is ready: {} rows, {} MB", member->name, ready.rows,
                   ready.memory_bytes >> 20),
       {{"server", member->name}, {"rows", ready.rows}, {"memory_bytes", ready.memory_bytes}}});
}

void TendMembers(RunState* run, int64_t now_ms) {
  std::vector<Member> dead;  // copies: names change when members go
  size_t workers = 0;
  for (const Member* member : run->roster().Dead(now_ms)) {
    if (member->role != Role::kWorker || workers++ < kMostDropped) dead.push_back(*member);
  }
  for (const Member& member : dead) {
    const auto silent_s = static_cast<double>(member.life.SilentMs(now_ms)) / 1000;
    run->cluster.Drop(member, true,
                      fmt::format("has been silent for {:.1f} s, taken for dead", silent_s),
                      run->pass().Return(member.incarnation), now_ms, &run->out);
  }
  run->cluster.TendApplicants(now_ms, &run->out);
  if (!run->InPass() || !run->Settled()) return;  // a server that takes a plan up answers late
  const int64_t silence_ms = int64_t{2} * run->inputs.config.cluster.request_timeout_ms;
  run->cluster.LeaveOut(
      run->cluster.Unheard(silence_ms, now_ms),
      "does not answer the workers (do they reach the address that --advertise names?)", now_ms,
      &run->out);
  if (run->change().paused() || (run->InPass() && run->pass().unconfirmed() > 0)) return;
  const bool doubted = run->trust.DoubtsAll(run->plan(), run->roster().Count(Role::kWorker));
  // A step waits for the batches of a worker that has given up until its lease has ended.
  const int64_t standing_ms =
      Pass::HasSteps(run->inputs) && !doubted
          ? std::max<int64_t>(silence_ms, 2 * int64_t{run->inputs.config.cluster.lease_timeout_ms})
          : silence_ms;
  run->cluster.LeaveOut(run->cluster.Stalling(standing_ms, doubted, now_ms),
                        "has slots, and no batch is done since", now_ms, &run->out);
}

void TendSeats(RunState* run, int64_t now_ms) {
  if (run->Finished()) return;
  Seats& seats = run->cluster.seats;
  if (seats.live() && !seats.Vacant(run->roster()).empty()) Interrupt(run, now_ms);
  const auto& checkpoint = run->checkpointer.newest();
  SeatSituation situation{run->cluster, run->inputs.config};
  situation.checkpoint = checkpoint ? &*checkpoint : nullptr;
  situation.started_ms = run->started_ms;
  situation.in_pass = run->InPass();
  situation.stopping = run->stop_wanted;
  situation.writing = run->checkpointer.Writing(run->roster());
  SeatDecision decision = DecideSeats(situation, now_ms);

  const uint32_t timeout_s = run->inputs.config.cluster.join_timeout_s;
  const uint64_t lacking_bytes = decision.lacking_bytes.value_or(seats.lacking_bytes());
  if (seats.SetLacking(lacking_bytes) && lacking_bytes > 0)
    run->out.Decide({event::kWaiting, run->WaitingLine(), {{"lacking_bytes", lacking_bytes}}},
                    now_ms);
  switch (decision.kind) {
    case SeatDecision::Kind::kWait:
      return;
    case SeatDecision::Kind::kGo:
      return Go(run, now_ms);
    case SeatDecision::Kind::kLeaveOut:
      return run->cluster.LeaveOut(run->cluster.Unready(), decision.why, now_ms, &run->out);
    case SeatDecision::Kind::kBegin:
      return BeginGeneration(run, decision.servers, std::move(decision.slot_owner), now_ms);
    case SeatDecision::Kind::kGoOnWithout:
      for (const size_t seat : decision.vacant) {
        const std::string& name = run->plan().servers[seat].name;
        run->out.Decide({event::kSpareGone,
                         fmt::format("{} is lost; it had no slots", name),
                         {{"server", name}}},
                        now_ms);
      }
      return SwitchTo(run, seats.GiveUp(decision.vacant), now_ms);
    case SeatDecision::Kind::kStop:
      return Finish(run, StoppedWithSaved(*run, "while servers were missing"), run_end::kStopped,
                    now_ms);
    case SeatDecision::Kind::kNotEnough:
      return Finish(run,
                    TryLater(fmt::format("{} after {} s (cluster.join_timeout_s)",
                                         run->WaitingLine(), timeout_s)),
                    run_end::kTooFewServers, now_ms);
    case SeatDecision::Kind::kNotReplaced:
      return Finish(
          run,
          TryLater(fmt::format("no server took the place of {} within {} s "
                               "(cluster.join_timeout_s); start the cluster again with --resume",
                               run->plan().servers[decision.vacant[0]].name, timeout_s)),
          run_end::kServersMissing, now_ms);
  }
}

}  // namespace dslide
