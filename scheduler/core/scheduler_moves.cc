// Slots that move, servers that join and leave while training goes on: the part of SchedulerCore
// that changes the plan within a generation.
//
// Slots go in waves, each as large as the pause that is aimed at allows (FinishPlanSwitch): all
// servers are given the next plan, and the slots are copied while requests wait (Ready). A slot
// that would take longer than that is copied in the background before (MoveSlots, MoveReady), and
// only what changed meanwhile follows with the plan.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "scheduler/balance/model_size.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/members/planned_servers.h"

namespace dslide {
namespace {

constexpr int64_t kOrderAgainMs = 2000;  // a MoveSlots without its MoveReady
constexpr int64_t kPausesInDrain = 4;    // a server that leaves has this many in cluster.drain_s
constexpr int64_t kPauseSlackMs = 1000;  // for the plan to come to the workers
constexpr int64_t kSwitchPatienceMs = 60000;  // for all to take a plan up
constexpr int64_t kSourceGoneMs = 5000;       // with a server that others copy from
constexpr int64_t kReadyMs = 20000;           // for the others, where one without slots was lost
static_assert(kSourceGoneMs < kSwitchPatienceMs);  // a reason to wait less

std::string Megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

bool SchedulerCore::OfThisGeneration(const Envelope& envelope) const {
  return plan_.version != 0 && envelope.plan_version <= plan_.version &&
         envelope.plan_version >= GenerationOf(plan_);
}

bool SchedulerCore::Settled() const { return !switch_ && roster_.AllReady(); }

bool SchedulerCore::MayMove() const {
  return live_ && InPass() && !stop_wanted_ && VacantSeats().empty();
}

// Whether the plan may change now: no server is writing a checkpoint, and in synchronous training
// servers hold nothing of uncommitted steps, nor is there anything on its way to them.
bool SchedulerCore::CanSwitchPlan() const {
  if (checkpointer_.Writing(roster_) || !Settled()) return false;
  if (!IsSynchronous(inputs_.config.train)) return true;
  return AllCommitted() &&
         (!steps_ || (book_->done() == told_batches_ && leased_end_ <= told_batches_));
}

// To be asked again and again while the plan shall change: until it may, no step begins that is not
// in progress already (synchronous training), then no batch.
bool SchedulerCore::MaySwitchPlan(int64_t now_ms) {
  if (CanSwitchPlan()) return steps_ || NothingInFlight(now_ms);
  switch_wanted_ms_ = now_ms;
  if (!steps_ || lease_end_) return false;
  const uint64_t step = BatchesPerStep(inputs_.config.train);
  lease_end_ = (std::max(leased_end_, told_batches_) + step - 1) / step * step;
  return false;
}

// The batches in flight would begin anew with another plan, so workers are told to begin no others
// for a while. True: they have ended, or take twice as long as they should.
bool SchedulerCore::NothingInFlight(int64_t now_ms) {
  if (!pause_) {
    const double batch_ms = roster_.BatchMs();
    if (batch_ms == 0) return true;
    pause_.emplace();
    pause_->since_ms = now_ms;
    const int64_t longest_ms = inputs_.config.cluster.drain_s * 1000 / kPausesInDrain;
    pause_->until_ms = now_ms + std::min(longest_ms, static_cast<int64_t>(2 * batch_ms));
    pause_->batch_ms = batch_ms;
    for (const Member* worker : roster_.Of(Role::kWorker)) {
      pause_->waiting.insert(worker->incarnation);
      out_.Send(*worker, OrdersFor(*worker, now_ms));
    }
  }
  pause_->wanted = true;
  std::erase_if(pause_->waiting, [&](Incarnation incarnation) {
    const Member* worker = roster_.Find(incarnation);
    return worker == nullptr || worker->life.Suspect(now_ms);
  });
  return pause_->waiting.empty() || now_ms >= pause_->until_ms;
}

void SchedulerCore::EndPause(int64_t now_ms) {
  pause_.reset();
  for (const Member* worker : roster_.Of(Role::kWorker))
    out_.Send(*worker, OrdersFor(*worker, now_ms));
}

// What a member is told with every reply.
HeartbeatReply SchedulerCore::OrdersFor(const Member& member, int64_t now_ms) const {
  HeartbeatReply orders;
  orders.in_flight_cap = advisor_.InFlightCap(member.incarnation);
  if (pause_ && member.role == Role::kWorker) {
    orders.pause_ms =
        static_cast<uint32_t>(std::max(int64_t{0}, pause_->until_ms - now_ms) + kPauseSlackMs);
  }
  return orders;
}

// True: not all servers have taken up the plan, of this life or an earlier one, yet. If they cannot
// a new generation begins.
bool SchedulerCore::AwaitPlanSwitch(int64_t now_ms) {
  if (!live_ || !VacantSeats().empty() || Settled() || GenerationOf(plan_) == plan_.version) {
    return false;
  }
  const bool source_gone =
      switch_ && std::any_of(switch_->sources.begin(), switch_->sources.end(),
                             [&](Incarnation s) { return roster_.Find(s) == nullptr; });
  int64_t since_ms = 0;
  for (const Seat& seat : seats_) since_ms = std::max(since_ms, seat.since_ms);
  if (now_ms - since_ms <= (source_gone ? kSourceGoneMs : kSwitchPatienceMs)) return true;
  out_.Notice(fmt::format("slot plan {} cannot be taken up: {}", plan_.version,
                          source_gone ? "a server was lost that others copied from"
                                      : "not all servers have their slots"));
  const std::string why = fmt::format("has not taken up slot plan {} within {} s", plan_.version,
                                      kSwitchPatienceMs / 1000);
  if (!source_gone && LeaveOutUnready(why, now_ms)) {
    TendSeats(now_ms);
    return true;
  }
  Interrupt(now_ms);
  const std::vector<Seated> servers = ChooseServers();
  PublishPlan(servers, Place(servers), now_ms);
  return true;
}

// Lost servers that had no slots: the others go on without them, at once or as soon as they are
// ready, and nothing is lost. False: they cannot. In synchronous training there may be a step that
// waits for their part.
bool SchedulerCore::GoOnWithout(const std::vector<size_t>& vacant, int64_t now_ms) {
  if (IsSynchronous(inputs_.config.train)) return false;
  std::vector<bool> lost(plan_.servers.size(), false);
  int64_t last_loss_ms = 0;
  for (const size_t seat : vacant) {
    if (!SlotsOf(plan_, {static_cast<uint32_t>(seat)}).empty()) return false;
    lost[seat] = true;
    last_loss_ms = std::max(last_loss_ms, seats_[seat].since_ms);
  }
  const bool soon = now_ms - last_loss_ms < kReadyMs;
  if (!roster_.AllReady()) return soon;
  if (checkpointer_.Writing(roster_) && soon) return true;
  for (const size_t seat : vacant) {
    gone_.insert(plan_.servers[seat].incarnation);
    out_.Decide(fmt::format("{} is lost; it had no slots", plan_.servers[seat].name), now_ms);
  }
  SwitchTo(WithoutEmpty(plan_, lost), {}, 0, now_ms);
  return true;
}

// Whether slots may go to the servers that joined last: a worker has done a batch with them, or
// none tries to. A server that workers cannot reach is left out without a loss while it has none.
bool SchedulerCore::NewcomersProven() const {
  if (proven_version_ >= joined_version_) return true;
  const auto workers = roster_.Of(Role::kWorker);
  return std::none_of(workers.begin(), workers.end(),
                      [](const Member* worker) { return worker->heartbeat.batches_in_flight > 0; });
}

// New servers have no slots at first; the balance gives them some.
void SchedulerCore::AddServers(const std::vector<const Member*>& servers, int64_t now_ms) {
  if (!MaySwitchPlan(now_ms)) return;
  Plan next = plan_;
  std::string names;
  for (const Member* server : servers) {
    next.servers.push_back(server->Seat());
    loads_.WarmUp(server->incarnation);
    names += (names.empty() ? "" : ", ") + server->name;
  }
  out_.Decide(fmt::format("{} join{} the plan of {}", names, servers.size() == 1 ? "s" : "",
                          Plural(plan_.servers.size(), "server")),
              now_ms);
  balancer_.OnServersJoined();
  SwitchTo(std::move(next), {}, 0, now_ms);
  joined_version_ = plan_.version;
}

// A server that shall leave and has no slots. True: the plan is about to change, or has.
bool SchedulerCore::ReleaseEmptyServers(int64_t now_ms) {
  const std::vector<bool> leaving = LeavingServers(plan_, roster_);
  for (size_t i = 0; i < leaving.size(); ++i) {
    if (!leaving[i] || !SlotsOf(plan_, {static_cast<uint32_t>(i)}).empty()) continue;
    if (MaySwitchPlan(now_ms)) SwitchTo(WithoutEmpty(plan_, leaving), {}, 0, now_ms);
    return true;
  }
  return false;
}

// The plan without those of `unwanted` that have no slots.
Plan SchedulerCore::WithoutEmpty(const Plan& plan, const std::vector<bool>& unwanted) {
  Plan next = plan;
  next.servers.clear();
  std::vector<uint16_t> index(plan.servers.size());
  for (uint32_t i = 0; i < plan.servers.size(); ++i) {
    index[i] = static_cast<uint16_t>(next.servers.size());
    if (!unwanted[i] || !SlotsOf(plan, {i}).empty()) next.servers.push_back(plan.servers[i]);
  }
  for (uint16_t& owner : next.slot_owner) owner = index[owner];
  return next;
}

void SchedulerCore::BeginMoves(SlotWave wave, int64_t now_ms) {
  moving_.emplace();
  moving_->id = next_move_++;
  moving_->began_ms = moving_->sent_ms = now_ms;
  moving_->wave = std::move(wave);
  if (!moving_->wave.copied_before) return AdvanceMoves(now_ms);
  for (const SlotMove& move : moving_->wave.moves) {
    MoveSlots& order = moving_->orders[plan_.servers[move.to].incarnation];
    order.move = moving_->id;
    order.bytes_per_second = moving_->wave.bytes_per_second;
    order.slots.push_back(move.slot);
    order.from.push_back(static_cast<uint16_t>(move.from));
  }
  for (const auto& [target, order] : moving_->orders) {
    moving_->waiting.insert(target);
    if (const Member* member = roster_.Find(target)) out_.Send(*member, order);
  }
}

void SchedulerCore::OnMoveReady(const Member& member, const MoveReady& ready) {
  if (moving_ && ready.move == moving_->id) moving_->waiting.erase(member.incarnation);
}

void SchedulerCore::AdvanceMoves(int64_t now_ms) {
  if (moving_->waiting.empty()) {
    if (MaySwitchPlan(now_ms)) SwitchToMoves(now_ms);
    return;
  }
  if (now_ms - moving_->began_ms > moving_->wave.patience_ms) {
    out_.Decide(
        fmt::format("{} not copied within {} s: given up, the owners stay",
                    Plural(moving_->wave.moves.size(), "slot"), moving_->wave.patience_ms / 1000),
        now_ms);
    return CancelMoves();
  }
  if (now_ms - moving_->sent_ms < kOrderAgainMs) return;
  moving_->sent_ms = now_ms;
  for (const Incarnation target : moving_->waiting) {
    if (const Member* member = roster_.Find(target)) out_.Send(*member, moving_->orders.at(target));
  }
}

// What was copied so far is forgotten.
void SchedulerCore::CancelMoves() {
  lease_end_.reset();
  if (!moving_) return;
  for (const auto& [target, order] : moving_->orders) {
    if (const Member* member = roster_.Find(target))
      out_.Send(*member, MoveSlots{next_move_, {}, {}, 0});
  }
  next_move_++;
  moving_.reset();
}

void SchedulerCore::SwitchToMoves(int64_t now_ms) {
  Plan next = plan_;
  std::set<Incarnation> sources;
  for (const SlotMove& move : moving_->wave.moves) {
    next.slot_owner[move.slot] = static_cast<uint16_t>(move.to);
    sources.insert(plan_.servers[move.from].incarnation);
  }
  const size_t slots = moving_->wave.moves.size();
  moving_.reset();
  SwitchTo(WithoutEmpty(next, LeavingServers(plan_, roster_)), std::move(sources), slots, now_ms);
}

// The next plan of this generation.
void SchedulerCore::SwitchTo(Plan next, std::set<Incarnation> sources, size_t slots,
                             int64_t now_ms) {
  next.generation = GenerationOf(plan_);
  next.version = plan_.version + 1;
  plan_ = std::move(next);
  out_.Record(LedgerPlanned{plan_});
  for (Member* server : roster_.Of(Role::kServer)) {
    const bool in_plan =
        std::any_of(plan_.servers.begin(), plan_.servers.end(),
                    [&](const PlanServer& s) { return s.incarnation == server->incarnation; });
    if (server->seated && !in_plan) out_.Send(*server, plan_);
    server->seated = in_plan;
    server->ready = false;
  }
  seats_.assign(plan_.servers.size(), {false, now_ms});
  switch_.emplace();
  switch_->sources = std::move(sources);
  switch_->report.slots = slots;
  if (pause_) {
    switch_->report.batch_ms = pause_->batch_ms;
    switch_->report.paused_ms = now_ms - pause_->since_ms;
    switch_->report.unpaused = pause_->waiting.size();
  }
  pause_.reset();
  lease_end_.reset();
  out_.SendToSeated(roster_, plan_);
  out_.SendToAll(roster_, Role::kWorker, plan_);
}

// One more server has the slots of the plan.
void SchedulerCore::FinishPlanSwitch(const Ready& ready, int64_t now_ms) {
  switch_->report.bytes += ready.moved_bytes;
  switch_->report.slot_bytes += ready.slot_bytes;
  switch_->report.stall_us = std::max(switch_->report.stall_us, ready.stall_us);
  if (!roster_.AllReady()) return;
  const PlanSwitchReport plan_switch = switch_->report;
  switch_.reset();
  balancer_.Learn(plan_switch, now_ms);
  const uint32_t disturbed = balancer_.DisturbedReports(plan_switch);
  for (const PlanServer& server : plan_.servers) loads_.WarmUp(server.incarnation, disturbed);
  std::string line = fmt::format("slot plan {}: {} over {}, {} moved ({}), {} ms pause",
                                 plan_.version, Plural(plan_.slot_owner.size(), "slot"),
                                 Plural(plan_.servers.size(), "server"), plan_switch.slots,
                                 Megabytes(plan_switch.bytes), (plan_switch.stall_us + 999) / 1000);
  if (plan_switch.paused_ms > 0)
    line += fmt::format(" after {} ms without new batches", plan_switch.paused_ms);
  if (plan_switch.unpaused > 0) {
    line += fmt::format("; those of {} begin anew", Plural(plan_switch.unpaused, "worker"));
  }
  out_.Notice(line);
  if (told_) {
    for (const Member* server : roster_.Seated()) {
      if (server->committed != told_) out_.Send(*server, CommitSteps{*told_});
    }
  }
}

void SchedulerCore::OnDrain(Member& asking, const Message& message, const DrainServer& drain,
                            int64_t now_ms) {
  const auto refuse = [&](std::string text, ErrorCode code = ErrorCode::kRefused) {
    out_.Reply(asking, message, ErrorReply{code, std::move(text)});
  };
  std::string names;
  Member* server = nullptr;
  size_t staying = 0;
  for (Member* member : roster_.Of(Role::kServer)) {
    names += (names.empty() ? "" : ", ") + member->name;
    if (member->name == drain.name) server = member;
  }
  if (asking.role == Role::kServer) server = &asking;  // whatever name it knows itself by
  for (const Member* member : roster_.Seated()) staying += !member->draining && member != server;
  if (server == nullptr) {
    return refuse(fmt::format("there is no server {}; there are {}", drain.name, names));
  }
  // Others may be copying from it still. A spare is told again by its heartbeat.
  if (server->draining) return out_.Reply(asking, message, Ack{});
  if (!server->seated) {
    server->draining = true;
    out_.Send(*server, Shutdown{"it has no slots", 0});
    return out_.Reply(asking, message, Ack{});
  }
  if (staying == 0 && VacantSeats().empty()) {
    return refuse(fmt::format("{} is the last server", server->name));
  }
  if (stop_wanted_) return refuse("slots cannot move now: the run is about to stop");
  if (!MayMove()) return refuse("slots cannot move now: " + WaitingLine(), ErrorCode::kStalePlan);
  server->draining = true;
  const BalancePlan plan = Balancer::PlanMoves(ViewLoads(), {});
  if (plan.unplaced > 0) {
    server->draining = false;
    return refuse(fmt::format("{} cannot leave: {}", server->name, ObstacleText(plan, "server")));
  }
  CancelMoves();
  out_.Decide(
      fmt::format("{} shall leave: its slots go to {}", server->name,
                  staying == 1 ? "the other server" : fmt::format("the other {} servers", staying)),
      now_ms);
  out_.Reply(asking, message, Ack{});
}

// Why a server cannot take part: it has no room for a slot, or it is the last one that the run
// waits for, and all together have too little. Empty: it can.
std::string SchedulerCore::WhyTooSmall(const Join& join) const {
  if (join.memory_bytes == 0) return "";
  const uint64_t slot_bytes = SlotMemoryBytes(inputs_.config);
  const uint32_t slots = inputs_.config.cluster.slots;
  const std::string told = fmt::format("this server may use {} MB", join.memory_bytes >> 20);
  if (join.memory_bytes < slot_bytes) {
    return fmt::format("too little memory: one of {} slots needs {} MB, {} (cluster.memory_mb)",
                       slots, (slot_bytes >> 20) + 1, told);
  }
  uint64_t room = join.memory_bytes / slot_bytes;
  const std::vector<const Member*> others = roster_.Of(Role::kServer);
  for (const Member* other : others) {
    room += other->memory_bytes == 0 ? slots : other->memory_bytes / slot_bytes;
  }
  if (live_ || others.size() + 1 < inputs_.config.cluster.servers || room >= slots) return "";
  return fmt::format(
      "too little memory: the model needs {} MB, {}{}, which is {} of {} slots "
      "(cluster.memory_mb); give it more, or have the run wait for more servers "
      "(cluster.servers)",
      (slots * slot_bytes >> 20) + 1, told,
      others.empty()
          ? ""
          : fmt::format(" beside {} other{}", others.size(), others.size() == 1 ? "" : "s"),
      room, slots);
}

}  // namespace dslide
