// Changes of plan while training goes on: the part of SchedulerCore that moves slots, and takes
// servers into the plan and out of it.
//
// Slots go in waves (Balancer). A wave that is small is copied during the plan switch, while
// requests wait. A larger one is copied in the background before, and only what changed meanwhile
// follows with the plan (PlanChange).
#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"
#include "common/run/slot_plan.h"
#include "scheduler/core/scheduler_core.h"
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

}  // namespace

void SchedulerCore::TendPlan(int64_t now_ms) {
  const bool paused = change().paused();
  change().EndUnwanted(kUnwantedLooks * balancer_.LookGapMs(), now_ms);
  if (change().paused() != paused) {
    advisor_.SendOrders(roster(), change().PauseMs(now_ms), &out_);
  }
  if (!change().wanted()) pass().ReleaseSteps();
  if (AwaitPlanSwitch(now_ms) || !MayMove()) return;
  if (!change().has_wave()) LookAtLoads(now_ms);
  if (change().has_wave() && MakeWay(now_ms)) {
    const Plan moved = change().PlanAfterWave(plan());
    SwitchTo(WithoutEmpty(moved, LeavingServers(plan(), roster())), now_ms);
  }
}

// Takes servers in that have joined, lets those go that are to leave and have no slots, or does
// what the balancer says.
void SchedulerCore::LookAtLoads(int64_t now_ms) {
  if (!Settled() || !balancer_.Due(change().paused(), now_ms)) return;
  balancer_.BeginLook(now_ms);
  if (const auto newcomers = roster().Newcomers(); balancer_.on() && !newcomers.empty()) {
    return AddServers(newcomers, now_ms);
  }
  const std::vector<bool> leaving = LeavingServers(plan(), roster());
  if (AnyReleased(plan(), leaving)) {
    if (MakeWay(now_ms)) SwitchTo(WithoutEmpty(plan(), leaving), now_ms);
    return;
  }
  if (!cluster_.seats.NewcomersProven(roster(), now_ms)) return;
  Balancer::Decision decision = balancer_.Look(cluster_.Loads(Training()), now_ms);
  if (!decision.line.empty()) out_.DecideOnce(std::move(decision.line), now_ms);
  if (decision.wave) {
    change().BeginWave(*std::move(decision.wave), plan(), roster(), now_ms, &out_);
  } else if (decision.uneven && MakeWay(now_ms)) {
    balancer_.OnShared(*decision.uneven);
    out_.Decide(std::move(decision.uneven->line), now_ms);
    SwitchTo(plan(), now_ms);
  }
}

// True: some servers have not taken up the present plan yet. The plan may be of an earlier life. If
// they cannot, a new generation begins.
bool SchedulerCore::AwaitPlanSwitch(int64_t now_ms) {
  const Seats& seats = cluster_.seats;
  if (!seats.live() || !seats.Vacant(roster()).empty() || Settled() || !seats.Switched()) {
    return false;
  }
  const bool source_gone = change().SourceGone(roster());
  if (now_ms - seats.changed_ms() <= (source_gone ? kSourceGoneMs : kSwitchPatienceMs)) return true;
  out_.Notice(fmt::format("slot plan {} cannot be taken up: {}", plan_version(),
                          source_gone ? "a server was lost that others copied from"
                                      : "not all servers have their slots"));
  const std::vector<const Member*> unready = cluster_.Unready();
  // An earlier life's switch: it is not known whether their sources are gone.
  const bool own_switch = change().switching();
  if (own_switch && !source_gone && !unready.empty()) {
    cluster_.LeaveOut(unready,
                      fmt::format("has not taken up slot plan {} within {} s", plan_version(),
                                  kSwitchPatienceMs / 1000),
                      now_ms, &out_);
    TendSeats(now_ms);
    return true;
  }
  Interrupt(now_ms);
  const auto& checkpoint = checkpointer_.newest();
  const std::vector<SeatedServer> servers =
      ChooseServers(plan(), roster(), inputs_.config.cluster.servers);
  BeginGeneration(servers,
                  Place(servers, plan(), checkpoint ? &*checkpoint : nullptr, cluster_.loads,
                        inputs_.config.cluster.slots)
                      .slot_owner,
                  now_ms);
  return true;
}

// New servers have no slots at first; the balance gives them some.
void SchedulerCore::AddServers(const std::vector<const Member*>& servers, int64_t now_ms) {
  if (!MakeWay(now_ms)) return;
  Plan next = plan();
  std::string names;
  for (const Member* server : servers) {
    next.servers.push_back(server->Seat());
    cluster_.loads.WarmUp(server->incarnation);
    names += (names.empty() ? "" : ", ") + server->name;
  }
  out_.Decide(fmt::format("{} join{} the {} of the plan", names, servers.size() == 1 ? "s" : "",
                          Plural(plan().servers.size(), "server")),
              now_ms);
  balancer_.OnServersJoined();
  SwitchTo(std::move(next), now_ms);
  cluster_.seats.OnServersJoined(now_ms);
}

// Call it on every tick while a plan change is wanted. It first stops leasing past the current step
// (synchronous training), then pauses the workers. True: the plan may be published now.
bool SchedulerCore::MakeWay(int64_t now_ms) {
  PlanChange::Conditions conditions;
  conditions.quiet = !checkpointer_.Writing(roster()) && Settled() &&
                     pass().AllCommitted(inputs_, roster()) && pass().BetweenSteps();
  conditions.in_steps = pass().in_steps();
  conditions.batch_ms = roster().BatchMs();
  conditions.longest_pause_ms = int64_t{1000} * inputs_.config.cluster.drain_s / kPausesInDrain;
  const bool paused = change().paused();
  const bool may_switch = change().Advance(conditions, roster(), now_ms, &out_);
  if (change().paused() != paused) {
    advisor_.SendOrders(roster(), change().PauseMs(now_ms), &out_);
  }
  if (change().wanted_at(now_ms)) pass().HoldSteps(inputs_);
  if (!change().wanted()) pass().ReleaseSteps();
  return may_switch;
}

// The next plan of this generation.
void SchedulerCore::SwitchTo(Plan next, int64_t now_ms) {
  change().BeginSwitch(plan(), now_ms);
  pass().ReleaseSteps();
  cluster_.seats.SwitchTo(std::move(next), &cluster_.roster, now_ms, &out_);
}

// A server has the slots of the plan.
void SchedulerCore::OnTakenUp(const Ready& ready, int64_t now_ms) {
  const auto report = change().OnReady(ready, plan(), roster(), &out_);
  if (!report) return;
  balancer_.Learn(*report, now_ms);
  const uint32_t disturbed = balancer_.DisturbedReports(*report);
  for (const PlanServer& server : plan().servers) {
    cluster_.loads.WarmUp(server.incarnation, disturbed);
  }
  for (const Member* server : roster().Seated()) pass().CommitAgain(*server, &out_);
}

// A server is to leave: its slots move to the others.
void SchedulerCore::OnDrain(Member* asking, const DrainServer& drain, const Message& message,
                            int64_t now_ms) {
  const auto refuse = [&](std::string text, ErrorCode code = ErrorCode::kRefused) {
    out_.Reply(*asking, message, ErrorReply{code, std::move(text)});
  };
  std::string names;
  Member* server = nullptr;
  size_t staying = 0;
  for (Member* member : cluster_.roster.Of(Role::kServer)) {
    names += (names.empty() ? "" : ", ") + member->name;
    if (member->name == drain.name) server = member;
  }
  if (asking->role == Role::kServer) server = asking;  // whatever name it knows itself by
  for (const Member* member : roster().Seated()) staying += !member->draining && member != server;
  if (server == nullptr) {
    return refuse(names.empty() ? "no server has joined"
                                : fmt::format("there is no server {}; the servers are: {}",
                                              drain.name, names));
  }
  // Others may be copying from it still. A spare learns the same by the reply to its heartbeat.
  if (server->draining) return out_.Reply(*asking, message, Ack{});
  if (!server->seated) {
    server->draining = true;
    out_.Send(*server, Shutdown{"this server has no slots", 0});
    return out_.Reply(*asking, message, Ack{});
  }
  if (staying == 0 && cluster_.seats.Vacant(roster()).empty()) {
    return refuse(fmt::format("{} is the last server", server->name));
  }
  if (stop_wanted_) return refuse("slots cannot move now: the run is about to stop");
  if (!MayMove()) {
    return refuse("slots cannot move now: " + WaitingLine(), ErrorCode::kStalePlan);
  }
  server->draining = true;
  const BalancePlan moves = Balancer::PlanMoves(cluster_.Loads(Training()), {});
  if (moves.unplaced > 0) {
    server->draining = false;
    return refuse(fmt::format("{} cannot leave: {}", server->name, ObstacleText(moves, "server")));
  }
  generation_.CancelChange(roster(), &out_);
  out_.Decide(
      fmt::format("{} shall leave: its slots go to {}", server->name,
                  staying == 1 ? "the other server" : fmt::format("the other {} servers", staying)),
      now_ms);
  out_.Reply(*asking, message, Ack{});
}

}  // namespace dslide
