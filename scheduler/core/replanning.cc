#include "scheduler/core/replanning.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/plural.h"
#include "common/run/slot_plan.h"
#include "scheduler/base/events.h"
#include "scheduler/core/plan_switch.h"
#include "scheduler/core/recovery.h"
#include "scheduler/core/seating.h"
#include "scheduler/members/planned_servers.h"

namespace dslide {
namespace {

constexpr int64_t kPausesInDrain = 4;  // a server that leaves has this many in cluster.drain_s
constexpr int64_t kSwitchPatienceMs = 60000;       // for all to take a plan up
constexpr int64_t kSourceGoneMs = 5000;            // with a server that others copy from
constexpr int64_t kUnwantedLooks = 3;              // after which a change is not wanted any more
static_assert(kSourceGoneMs < kSwitchPatienceMs);  // a reason to wait less

// Whether a server that is to leave has no slots any more.
bool AnyReleased(const Plan& plan, const std::vector<bool>& leaving) {
  for (uint32_t i = 0; i < leaving.size(); ++i) {
    if (leaving[i] && SlotsOf(plan, {i}).empty()) return true;
  }
  return false;
}

// Passes on what has become of the change: a pause that began or ended since `was_paused`, and
// steps that need not be held any more.
void FollowChange(RunState* run, bool was_paused, int64_t now_ms) {
  if (run->change().paused() != was_paused) {
    run->advisor.SendOrders(run->roster(), run->change().PauseMs(now_ms), &run->out);
  }
  if (!run->change().wanted()) run->pass().ReleaseSteps();
}

// Call it on every tick while a plan change is wanted. It first stops leasing past the current step
// (synchronous training), then pauses the workers. True: the plan may be published now.
bool MakeWay(RunState* run, int64_t now_ms) {
  PlanChange::Conditions conditions;
  conditions.quiet = !run->checkpointer.Writing(run->roster()) && run->Settled() &&
                     run->AllCommitted() && run->pass().BetweenSteps();
  conditions.in_steps = run->pass().in_steps();
  conditions.batch_ms = run->roster().BatchMs();
  conditions.longest_pause_ms = int64_t{1000} * run->inputs.config.cluster.drain_s / kPausesInDrain;
  const bool was_paused = run->change().paused();
  const bool may_switch = run->change().Advance(conditions, run->roster(), now_ms, &run->out);
  FollowChange(run, was_paused, now_ms);
  if (run->change().wanted_at(now_ms)) run->pass().HoldSteps(run->inputs);
  return may_switch;
}

// New servers have no slots at first; the balance gives them some.
void AddServers(RunState* run, const std::vector<const Member*>& servers, int64_t now_ms) {
  if (!MakeWay(run, now_ms)) return;
  Plan next = run->plan();
  std::string names;
  for (const Member* server : servers) {
    next.servers.push_back(server->Seat());
    run->cluster.roster.Find(server->incarnation)->added = true;
    run->cluster.loads.WarmUp(server->incarnation);
    names += (names.empty() ? "" : ", ") + server->name;
  }
  run->out.Decide(
      {event::kServersAdded,
       fmt::format("{} join{} the {} of the plan", names, servers.size() == 1 ? "s" : "",
                   Plural(run->plan().servers.size(), "server")),
       {{"servers", names}, {"before", run->plan().servers.size()}}},
      now_ms);
  run->balancer.OnServersJoined();
  SwitchTo(run, std::move(next), now_ms);
  run->cluster.seats.OnServersJoined(now_ms);
}

// Takes servers in that have joined, lets those go that are to leave and have no slots, or does
// what the balancer says.
void LookAtLoads(RunState* run, int64_t now_ms) {
  if (!run->Settled() || !run->balancer.Due(run->change().paused(), now_ms)) return;
  run->balancer.BeginLook(now_ms);
  if (const auto newcomers = run->roster().Newcomers(); run->balancer.on() && !newcomers.empty()) {
    if (!run->cluster.resting()) return AddServers(run, newcomers, now_ms);
    run->out.DecideOnce({event::kServersRest,
                         "a server that had joined the plan has failed; no other server gets slots "
                         "for some time"},
                        now_ms);
  }
  const std::vector<bool> leaving = LeavingServers(run->plan(), run->roster());
  if (AnyReleased(run->plan(), leaving)) {
    if (MakeWay(run, now_ms)) SwitchTo(run, WithoutEmpty(run->plan(), leaving), now_ms);
    return;
  }
  const Seats& seats = run->cluster.seats;
  if (!seats.NewcomersProven(run->roster(), now_ms)) return;
  // If they cannot do their part all go back to the newest checkpoint, which should be a fresh one.
  // A server that leaves does not wait for that.
  const bool leaves = std::ranges::count(leaving, true) > 0;
  if (!leaves && run->cluster.HasUntried() &&
      !run->checkpointer.IsSaved(run->pass().BatchesToSave()) &&
      !run->checkpointer.TriedSince(seats.joined_ms())) {
    return;
  }
  Balancer::Decision decision = run->balancer.Look(run->cluster.Loads(run->Training()), now_ms);
  if (decision.event) run->out.DecideOnce(*std::move(decision.event), now_ms);
  if (decision.wave) {
    run->change().BeginWave(*std::move(decision.wave), run->plan(), run->roster(), now_ms,
                            &run->out);
  } else if (decision.uneven && MakeWay(run, now_ms)) {
    run->balancer.OnShared(*decision.uneven);
    run->out.Decide(std::move(decision.uneven->event), now_ms);
    SwitchTo(run, run->plan(), now_ms);
  }
}

// True: some servers have not taken up the present plan yet. The plan may be of an earlier life. If
// they cannot, a new generation begins.
bool AwaitPlanSwitch(RunState* run, int64_t now_ms) {
  const Seats& seats = run->cluster.seats;
  if (!seats.live() || !seats.Vacant(run->roster()).empty() || run->Settled() ||
      !seats.Switched()) {
    return false;
  }
  const bool source_gone = run->change().SourceGone(run->roster());
  if (now_ms - seats.changed_ms() <= (source_gone ? kSourceGoneMs : kSwitchPatienceMs)) return true;
  run->out.Notice({event::kSlotMapFailed,
                   fmt::format("slot plan {} cannot be taken up: {}", run->plan().version,
                               source_gone ? "a server was lost that others copied from"
                                           : "not all servers have their slots"),
                   {{"map", run->plan().version}, {"source_lost", source_gone}}});
  const std::vector<const Member*> unready = run->cluster.Unready();
  // An earlier life's switch: it is not known whether their sources are gone.
  const bool own_switch = run->change().switching();
  if (own_switch && !source_gone && !unready.empty()) {
    run->cluster.LeaveOut(unready,
                          fmt::format("has not taken up slot plan {} within {} s",
                                      run->plan().version, kSwitchPatienceMs / 1000),
                          now_ms, &run->out);
    TendSeats(run, now_ms);
    return true;
  }
  GoBack(run, now_ms);
  return true;
}

}  // namespace

void TendPlan(RunState* run, int64_t now_ms) {
  const bool was_paused = run->change().paused();
  run->change().EndUnwanted(kUnwantedLooks * run->balancer.LookGapMs(), now_ms);
  FollowChange(run, was_paused, now_ms);
  if (AwaitPlanSwitch(run, now_ms) || !run->MayMove()) return;
  if (!run->change().has_wave()) LookAtLoads(run, now_ms);
  if (run->change().has_wave() && MakeWay(run, now_ms)) {
    const Plan moved = run->change().PlanAfterWave(run->plan());
    SwitchTo(run, WithoutEmpty(moved, LeavingServers(run->plan(), run->roster())), now_ms);
  }
}

void OnDrain(RunState* run, Member* asking, const DrainServer& drain, const Message& message,
             int64_t now_ms) {
  const auto refuse = [&](std::string text, ErrorCode code = ErrorCode::kRefused) {
    run->out.Reply(*asking, message, ErrorReply{code, std::move(text)});
  };
  std::string names;
  Member* server = nullptr;
  size_t staying = 0;
  for (Member* member : run->cluster.roster.Of(Role::kServer)) {
    names += (names.empty() ? "" : ", ") + member->name;
    if (member->name == drain.name) server = member;
  }
  if (asking->role == Role::kServer) server = asking;  // whatever name it knows itself by
  for (const Member* member : run->roster().Seated())
    staying += !member->draining && member != server;
  if (server == nullptr) {
    return refuse(names.empty() ? "no server has joined"
                                : fmt::format("there is no server {}; the servers are: {}",
                                              drain.name, names));
  }
  // Others may be copying from it still. A spare learns the same by the reply to its heartbeat.
  if (server->draining) return run->out.Reply(*asking, message, Ack{});
  if (!server->seated) {
    server->draining = true;
    run->out.Send(*server, Shutdown{"this server has no slots", 0});
    return run->out.Reply(*asking, message, Ack{});
  }
  if (staying == 0 && run->cluster.seats.Vacant(run->roster()).empty()) {
    return refuse(fmt::format("{} is the last server", server->name));
  }
  if (run->stop_wanted) return refuse("slots cannot move now: the run is about to stop");
  if (!run->MayMove()) {
    return refuse("slots cannot move now: " + run->WaitingLine(), ErrorCode::kStalePlan);
  }
  server->draining = true;
  const BalancePlan moves = Balancer::PlanMoves(run->cluster.Loads(run->Training()), {});
  if (moves.unplaced > 0) {
    server->draining = false;
    return refuse(fmt::format("{} cannot leave: {}", server->name, ObstacleText(moves, "server")));
  }
  run->generation.CancelChange(run->roster(), &run->out);
  run->out.Decide({event::kServerLeaves,
                   fmt::format("{} shall leave: its slots go to {}", server->name,
                               staying == 1 ? "the other server"
                                            : fmt::format("the other {} servers", staying)),
                   {{"server", server->name}}},
                  now_ms);
  run->out.Reply(*asking, message, Ack{});
}

}  // namespace dslide
