// Slots that move, servers that join and leave while training goes on: the part of SchedulerCore
// that changes the plan within a generation.
//
// Slots go in waves, each as large as the pause that is aimed at allows (NoteFlipped): all servers
// are given the next plan, and the slots are copied while requests wait (Ready). A slot that would
// take longer than that is copied in the background before (MoveSlots, MoveReady), and only what
// changed meanwhile follows with the plan.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/plural.h"
#include "common/config/model_size.h"
#include "common/config/step.h"
#include "common/net/slot_plan.h"
#include "scheduler/scheduler_core.h"

namespace dslide {
namespace {

constexpr uint32_t kLooks = 3;               // that find the load uneven, before slots move
constexpr int64_t kLastingMs = 30000;        // that load uneven by half as much is no noise either
constexpr int64_t kSettleMs = 20000;         // after moves, while loads and capacities are learned
constexpr int64_t kOrderAgainMs = 2000;      // a MoveSlots without its MoveReady
constexpr int64_t kMovePatienceMs = 600000;  // for all copies of a wave, at least
constexpr int64_t kFlipPatienceMs = 60000;   // for all to take a plan up
constexpr int64_t kSourceGoneMs = 5000;      // with a server that others copy from
constexpr int64_t kReadyMs = 20000;          // for the others, where one without slots was lost
constexpr double kLeastWaveBytes = 64 << 10;
constexpr double kLargestWaveBytes = 256 << 20;
constexpr double kStallGoalUs = 50'000;
constexpr double kStallShare = 0.25;  // of what the batches in flight take, if that is more
constexpr double kGapStalls = 3;      // between two plans
constexpr double kGoal = 1.02;
constexpr double kRest = 1.04;  // once slots move they go on moving above this

std::string Megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

bool SchedulerCore::OfThisGeneration(const Envelope& envelope) const {
  return plan_.version != 0 && envelope.plan_version <= plan_.version &&
         envelope.plan_version >= GenerationOf(plan_);
}

// All servers of the plan have its slots.
bool SchedulerCore::AllReady() const {
  const auto seated = roster_.Seated();
  return std::all_of(seated.begin(), seated.end(), [](const Member* m) { return m->ready; });
}

bool SchedulerCore::Settled() const { return !flip_ && AllReady(); }

bool SchedulerCore::MayMove() const {
  return live_ && InPass() && !stop_wanted_ && VacantSeats().empty();
}

// Whether the plan may change now: no server is writing a checkpoint, and in synchronous training
// servers hold nothing of uncommitted steps, nor is there anything on its way to them.
bool SchedulerCore::CanFlip() const {
  if (round_ || !NobodySaves() || !Settled()) return false;
  if (!IsSynchronous(inputs_.config.train)) return true;
  return AllCommitted() &&
         (!steps_ || (book_->done() == told_batches_ && leased_end_ <= told_batches_));
}

// Synchronous training: no step begins that is not in progress already, until the plan has changed.
void SchedulerCore::WantFlip(int64_t now_ms) {
  flip_wanted_ms_ = now_ms;
  if (!steps_ || lease_end_) return;
  const uint64_t step = BatchesPerStep(inputs_.config.train);
  lease_end_ = (std::max(leased_end_, told_batches_) + step - 1) / step * step;
}

std::vector<Incarnation> SchedulerCore::PlanIncarnations() const {
  std::vector<Incarnation> servers;
  for (const PlanServer& server : plan_.servers) servers.push_back(server.incarnation);
  return servers;
}

bool SchedulerCore::CapacitiesMeasured() const {
  const std::vector<Incarnation> servers = PlanIncarnations();
  return std::all_of(servers.begin(), servers.end(),
                     [&](Incarnation s) { return loads_.CapacityMeasured(s); });
}

std::vector<bool> SchedulerCore::LeavingServers() const {
  std::vector<bool> leaving;
  for (const PlanServer& server : plan_.servers) {
    const Member* member = roster_.Find(server.incarnation);
    leaving.push_back(member != nullptr && member->draining);
  }
  return leaving;
}

double SchedulerCore::Imbalance() const {
  if (plan_.servers.empty()) return 1;
  return loads_.Imbalance(PlanIncarnations(), plan_.slot_owner);
}

std::vector<double> SchedulerCore::RelativeLoads() const {
  if (plan_.servers.empty()) return {};
  return loads_.RelativeLoads(PlanIncarnations(), plan_.slot_owner);
}

BalancePlan SchedulerCore::PlanMoves(const BalanceOptions& options) const {
  return PlanBalance(loads_.Owners(PlanIncarnations(), LeavingServers()),
                     loads_.Slots(plan_.slot_owner, plan_.servers.size()), options);
}

// What cluster.move_mbit lets a server receive; 0: no limit.
double SchedulerCore::MoveBytesPerMs() const {
  return inputs_.config.cluster.move_mbit * 1e6 / 8 / 1000;
}

// Of all slots that one plan moves at most, all to one server in the worst case; one slot always
// may.
uint64_t SchedulerCore::WaveBytes() const {
  const double in_time =
      MoveBytesPerMs() > 0 ? MoveBytesPerMs() * kMovePatienceMs / 2 : kLargestWaveBytes;
  uint64_t largest = 1;
  for (uint32_t slot = 0; slot < plan_.slot_owner.size(); ++slot) {
    largest = std::max(largest, loads_.SlotBytes(slot));
  }
  return std::max(largest, static_cast<uint64_t>(std::min(wave_bytes_, in_time)));
}

// Until the loads may be others, and for pauses not to be most of the time.
int64_t SchedulerCore::LookGapMs() const {
  return std::max<int64_t>(inputs_.config.cluster.heartbeat_ms,
                           static_cast<int64_t>(last_stall_us_ / 1000 * kGapStalls));
}

// What the cluster needs for the batches in flight, which begin anew with another plan.
double SchedulerCore::InFlightMs() const {
  uint32_t open = 0;
  for (const Member* server : roster_.Seated()) {
    open = std::max(open, server->heartbeat.batches_in_flight);
  }
  return 1000 * open * loads_.SecondsPerBatch(PlanIncarnations(), plan_.slot_owner);
}

void SchedulerCore::TendBalance(int64_t now_ms) {
  if (now_ms - flip_wanted_ms_ > 3 * LookGapMs()) lease_end_.reset();  // nobody wants it any more
  if (live_ && VacantSeats().empty() && !Settled() && GenerationOf(plan_) != plan_.version) {
    // Also a flip of an earlier life, and one that was interrupted.
    const bool source_gone =
        flip_ && std::any_of(flip_->sources.begin(), flip_->sources.end(),
                             [&](Incarnation s) { return roster_.Find(s) == nullptr; });
    int64_t since_ms = 0;
    for (const Seat& seat : seats_) since_ms = std::max(since_ms, seat.since_ms);
    if (now_ms - since_ms > (source_gone ? kSourceGoneMs : kFlipPatienceMs)) {
      Notice(fmt::format("slot plan {} cannot be taken up: {}", plan_.version,
                         source_gone ? "a server was lost that others copied from"
                                     : "not all servers have their slots"));
      Interrupt(now_ms);
      const std::vector<Seated> servers = ChooseServers();
      PublishPlan(servers, Place(servers), now_ms);
    }
    return;
  }
  if (!MayMove()) return;
  if (moving_) return AdvanceMoves(now_ms);
  const int64_t gap_ms = LookGapMs();
  if (now_ms - balanced_ms_ < gap_ms || now_ms - flipped_ms_ < gap_ms || !Settled()) return;
  const int64_t since_ms = now_ms - std::max(balanced_ms_, flipped_ms_);
  balanced_ms_ = now_ms;
  const bool on = inputs_.config.cluster.balance != Balance::kOff;
  if (const auto newcomers = roster_.Newcomers(); on && !newcomers.empty()) {
    return AddServers(newcomers, now_ms);
  }
  if (ReleaseEmptyServers(now_ms)) return;

  const bool by_load = on && !IsSynchronous(inputs_.config.train);
  BalanceOptions options;
  const double threshold = inputs_.config.cluster.balance_threshold;
  options.goal = std::min(kGoal, threshold);
  options.byte_budget = WaveBytes();
  const bool measured = phase_ == Phase::kTraining && CapacitiesMeasured();
  constexpr double kNever = 1e9;
  const double rest = std::min(kRest, threshold);
  if (!measured || Imbalance() <= (1 + threshold) / 2) even_ms_ = now_ms;
  const bool lasting = now_ms - std::max(even_ms_, flipped_ms_) >= kLastingMs;
  const bool go_on = balancing_ || (by_load && lasting);
  options.threshold = go_on ? rest : by_load && measured ? threshold : kNever;
  BalancePlan plan = PlanMoves(options);
  if (plan.moves.empty() && plan.obstacle == BalanceObstacle::kBudget) {
    options.byte_budget = plan.lacking_bytes;  // no smaller step helps
    plan = PlanMoves(options);
  }
  const auto leaving = LeavingServers();
  const bool must = std::find(leaving.begin(), leaving.end(), true) != leaving.end();
  if (plan.moves.empty()) {
    const bool settled = now_ms - moved_ms_ >= kSettleMs;
    if (must || (balancing_ && settled)) NoteBalanced(plan, now_ms);
    if (settled) {
      balancing_ = false;
      lost_ms_ = 0;
    }
    unbalanced_looks_ = 0;
    if (lasting) even_ms_ = now_ms;  // nothing helps
    return BalanceWithin(now_ms);
  }
  if (!on && !must) return;
  // A plan comes when staying with the old one has cost as much as the change: in all, at most
  // twice what the best moments would cost (the ski rental; Karlin et al.: "Competitive Snoopy
  // Caching", Algorithmica 3, 1988). Where plans are dear, noise moves nothing.
  const auto looked_ms = static_cast<double>(std::min(since_ms, 2 * gap_ms));
  lost_ms_ += std::max(0.0, 1 - options.goal / plan.before) * looked_ms;
  if (!must && lost_ms_ < last_stall_us_ / 1000 + InFlightMs()) return;
  if (!balancing_ && !must && ++unbalanced_looks_ < kLooks) return;
  if (!balancing_ && !must) {
    NoteDecision(fmt::format("slots move: the busiest server has {:.2f} times the mean load over "
                             "capacity, {:.2f} is the goal",
                             plan.before, options.goal),
                 now_ms);
  }
  balancing_ = on;
  BeginMoves(plan, now_ms);
}

void SchedulerCore::NoteBalanced(const BalancePlan& plan, int64_t now_ms) {
  std::string line =
      fmt::format("slots rest: the busiest server has {:.2f} times the mean load", plan.after);
  if (const std::string why = ObstacleText(plan, "server"); !why.empty()) line += "; " + why;
  if (decisions_.empty() || decisions_.back().text != line) NoteDecision(std::move(line), now_ms);
}

// Executors of one server share its slots anew with every plan.
void SchedulerCore::BalanceWithin(int64_t now_ms) {
  if (inputs_.config.cluster.balance == Balance::kOff || IsSynchronous(inputs_.config.train) ||
      !CanFlip()) {
    return;
  }
  constexpr double kWorse = 1.1;  // than what the last attempt began with
  for (const PlanServer& server : plan_.servers) {
    const double skew = loads_.ExecutorSkew(server.incarnation);
    double& tried = inner_skew_[server.incarnation];
    if (skew < inputs_.config.cluster.balance_threshold || skew < kWorse * tried) continue;
    tried = skew;
    NoteDecision(fmt::format("{}: slots change executors, the busiest has {:.2f} times the mean",
                             server.name, skew),
                 now_ms);
    return FlipTo(plan_, {}, 0, now_ms);
  }
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
  if (!AllReady()) return soon;
  if (!NobodySaves() && soon) return true;
  for (const size_t seat : vacant) {
    gone_.insert(plan_.servers[seat].incarnation);
    NoteDecision(fmt::format("{} is lost; it had no slots", plan_.servers[seat].name), now_ms);
  }
  FlipTo(WithoutEmpty(plan_, lost), {}, 0, now_ms);
  return true;
}

// New servers have no slots at first; the balance gives them some.
void SchedulerCore::AddServers(const std::vector<const Member*>& servers, int64_t now_ms) {
  if (!CanFlip()) return WantFlip(now_ms);
  Plan next = plan_;
  std::string names;
  for (const Member* server : servers) {
    next.servers.push_back(server->Seat());
    loads_.WarmUp(server->incarnation);
    names += (names.empty() ? "" : ", ") + server->name;
  }
  NoteDecision(fmt::format("{} join{} the plan of {}", names, servers.size() == 1 ? "s" : "",
                           Plural(plan_.servers.size(), "server")),
               now_ms);
  balancing_ = true;
  FlipTo(std::move(next), {}, 0, now_ms);
}

// A server that shall leave and has no slots. True: the plan is about to change, or has.
bool SchedulerCore::ReleaseEmptyServers(int64_t now_ms) {
  const std::vector<bool> leaving = LeavingServers();
  for (size_t i = 0; i < leaving.size(); ++i) {
    if (!leaving[i] || !SlotsOf(plan_, {static_cast<uint32_t>(i)}).empty()) continue;
    if (CanFlip()) {
      FlipTo(WithoutEmpty(plan_, leaving), {}, 0, now_ms);
    } else {
      WantFlip(now_ms);
    }
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

void SchedulerCore::BeginMoves(const BalancePlan& plan, int64_t now_ms) {
  moved_ms_ = now_ms;
  moving_.emplace();
  moving_->id = next_move_++;
  moving_->began_ms = moving_->sent_ms = now_ms;
  moving_->moves = plan.moves;
  moving_->patience_ms = kMovePatienceMs;
  if (MoveBytesPerMs() > 0) {
    const double least_ms = static_cast<double>(plan.bytes) / MoveBytesPerMs();
    moving_->patience_ms = std::max(kMovePatienceMs, static_cast<int64_t>(2 * least_ms));
  }
  const bool at_once =
      static_cast<double>(plan.bytes) <= wave_bytes_ && inputs_.config.cluster.move_mbit == 0;
  if (at_once) return AdvanceMoves(now_ms);
  for (const SlotMove& move : plan.moves) {
    MoveSlots& order = moving_->orders[plan_.servers[move.to].incarnation];
    order.move = moving_->id;
    order.bytes_per_second = static_cast<uint64_t>(MoveBytesPerMs() * 1000);
    order.slots.push_back(move.slot);
    order.from.push_back(static_cast<uint16_t>(move.from));
  }
  for (const auto& [target, order] : moving_->orders) {
    moving_->waiting.insert(target);
    if (const Member* member = roster_.Find(target)) Send(*member, order);
  }
}

void SchedulerCore::OnMoveReady(const Member& member, const MoveReady& ready) {
  if (moving_ && ready.move == moving_->id) moving_->waiting.erase(member.incarnation);
}

void SchedulerCore::AdvanceMoves(int64_t now_ms) {
  if (moving_->waiting.empty()) {
    if (CanFlip()) {
      FlipToMoves(now_ms);
    } else {
      WantFlip(now_ms);
    }
    return;
  }
  if (now_ms - moving_->began_ms > moving_->patience_ms) {
    NoteDecision(fmt::format("{} not copied within {} s: given up, the owners stay",
                             Plural(moving_->moves.size(), "slot"), moving_->patience_ms / 1000),
                 now_ms);
    return CancelMoves();
  }
  if (now_ms - moving_->sent_ms < kOrderAgainMs) return;
  moving_->sent_ms = now_ms;
  for (const Incarnation target : moving_->waiting) {
    if (const Member* member = roster_.Find(target)) Send(*member, moving_->orders.at(target));
  }
}

// What was copied so far is forgotten.
void SchedulerCore::CancelMoves() {
  lease_end_.reset();
  if (!moving_) return;
  for (const auto& [target, order] : moving_->orders) {
    if (const Member* member = roster_.Find(target))
      Send(*member, MoveSlots{next_move_, {}, {}, 0});
  }
  next_move_++;
  moving_.reset();
}

void SchedulerCore::FlipToMoves(int64_t now_ms) {
  Plan next = plan_;
  std::set<Incarnation> sources;
  for (const SlotMove& move : moving_->moves) {
    next.slot_owner[move.slot] = static_cast<uint16_t>(move.to);
    sources.insert(plan_.servers[move.from].incarnation);
  }
  const size_t slots = moving_->moves.size();
  moving_.reset();
  FlipTo(WithoutEmpty(next, LeavingServers()), std::move(sources), slots, now_ms);
}

// The next plan of this generation.
void SchedulerCore::FlipTo(Plan next, std::set<Incarnation> sources, size_t slots, int64_t now_ms) {
  const double in_flight_ms = InFlightMs();
  next.generation = GenerationOf(plan_);
  next.version = plan_.version + 1;
  plan_ = std::move(next);
  Record(LedgerPlanned{plan_});
  for (Member* server : roster_.Of(Role::kServer)) {
    const bool in_plan =
        std::any_of(plan_.servers.begin(), plan_.servers.end(),
                    [&](const PlanServer& s) { return s.incarnation == server->incarnation; });
    if (server->seated && !in_plan) Send(*server, plan_);
    server->seated = in_plan;
    server->ready = false;
  }
  seats_.assign(plan_.servers.size(), {false, now_ms});
  flip_.emplace();
  flip_->sources = std::move(sources);
  flip_->slots = slots;
  flip_->in_flight_ms = in_flight_ms;
  lease_end_.reset();
  BroadcastToSeated(plan_);
  Broadcast(Role::kWorker, plan_);
}

// One more server has the slots of the plan.
void SchedulerCore::NoteFlipped(const Ready& ready, int64_t now_ms) {
  flip_->bytes += ready.moved_bytes;
  flip_->slot_bytes += ready.slot_bytes;
  flip_->stall_us = std::max(flip_->stall_us, ready.stall_us);
  if (!AllReady()) return;
  const Flip flip = *std::exchange(flip_, std::nullopt);
  flipped_ms_ = now_ms;
  lost_ms_ = 0;
  moves_.plans++;
  moves_.slots += flip.slots;
  moves_.bytes += flip.bytes;
  moves_.slot_bytes += flip.slot_bytes;
  moves_.longest_stall_us = std::max(moves_.longest_stall_us, flip.stall_us);
  // A pause has a part that does not depend on what moves: what servers have before them when the
  // plan comes. Smaller waves than that allows only make more pauses, and each costs the batches in
  // flight.
  constexpr double kForget = 1.2;
  const double stall_us = std::max(1.0, double{1.0} * flip.stall_us);
  least_stall_us_ = least_stall_us_ == 0 ? stall_us : std::min(stall_us, kForget * least_stall_us_);
  last_stall_us_ = stall_us;
  if (flip.slots > 0) {
    // What it disturbs: see SlotLoads::WarmUp().
    const double disturbed_ms = 2 * (flip.in_flight_ms + stall_us / 1000);
    const auto reports = static_cast<uint32_t>(
        std::min(std::ceil(disturbed_ms / inputs_.config.cluster.heartbeat_ms),
                 double{SlotLoads::kWarmUpReports}));
    for (const Incarnation server : PlanIncarnations()) loads_.WarmUp(server, reports);
    const double goal_us =
        std::max({kStallGoalUs, 2 * least_stall_us_, kStallShare * 1000 * flip.in_flight_ms});
    const double change = std::clamp(goal_us / stall_us, 0.5, 2.0);
    wave_bytes_ = std::clamp(change * wave_bytes_, kLeastWaveBytes, kLargestWaveBytes);
  }
  Notice(fmt::format("slot plan {}: {} over {}, {} moved ({}), {} ms pause", plan_.version,
                     Plural(plan_.slot_owner.size(), "slot"),
                     Plural(plan_.servers.size(), "server"), flip.slots, Megabytes(flip.bytes),
                     (flip.stall_us + 999) / 1000));
  if (told_) {
    for (const Member* server : roster_.Seated()) {
      if (server->committed != told_) Send(*server, CommitSteps{*told_});
    }
  }
}

void SchedulerCore::OnDrain(Member& asking, const Message& message, const DrainServer& drain,
                            int64_t now_ms) {
  const auto refuse = [&](std::string text, ErrorCode code = ErrorCode::kRefused) {
    Reply(asking, message, ErrorReply{code, std::move(text)});
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
  if (server->draining) return Reply(asking, message, Ack{});
  if (!server->seated) {
    server->draining = true;
    Send(*server, Shutdown{"it has no slots", 0});
    return Reply(asking, message, Ack{});
  }
  if (staying == 0 && VacantSeats().empty()) {
    return refuse(fmt::format("{} is the last server", server->name));
  }
  if (stop_wanted_) return refuse("slots cannot move now: the run is about to stop");
  if (!MayMove()) return refuse("slots cannot move now: " + WaitingLine(), ErrorCode::kStalePlan);
  server->draining = true;
  const BalancePlan plan = PlanMoves({});
  if (plan.unplaced > 0) {
    server->draining = false;
    return refuse(fmt::format("{} cannot leave: {}", server->name, ObstacleText(plan, "server")));
  }
  CancelMoves();
  NoteDecision(
      fmt::format("{} shall leave: its slots go to {}", server->name,
                  staying == 1 ? "the other server" : fmt::format("the other {} servers", staying)),
      now_ms);
  Reply(asking, message, Ack{});
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
