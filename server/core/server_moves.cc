// Slots that come and go while training goes on: the part of ServerCore that copies, switches plans
// from one plan of a generation to the next, and lets go.
#include <fmt/core.h>

#include <algorithm>

#include "common/balance/planner.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "server/core/server_core.h"
#include "server/executor/gather.h"

namespace dslide {
namespace {

constexpr int64_t kReleaseAgainMs = 1000;
constexpr uint32_t kReleaseTries = 30;

std::vector<SlotId> Without(const std::vector<SlotId>& slots, const std::vector<SlotId>& others) {
  std::vector<SlotId> rest;
  std::set_difference(slots.begin(), slots.end(), others.begin(), others.end(),
                      std::back_inserter(rest));
  return rest;
}

}  // namespace

std::vector<SlotId> ServerCore::OwnSlots() const {
  return without_slots_ ? std::vector<SlotId>() : SlotsOf(*plan_, {index_});
}

void ServerCore::DoSlotJob(SlotJob job) {
  Open open(Open::Kind::kSlotJob);
  open.job = std::make_shared<const SlotJob>(std::move(job));
  Submit(std::move(open));
}

// Begins the copies of slots, each to the executor with the fewest; one from somebody else is
// forgotten.
void ServerCore::Reserve(const std::vector<SlotId>& slots, const Plan& from) {
  std::vector<size_t> held(executors_);
  for (const SlotId slot : Without(OwnSlots(), slots)) held[executor_of_[slot.value]]++;
  for (const SlotId slot : fetcher_.slots()) held[executor_of_[slot.value]]++;
  InnerMoves places;
  for (const SlotId slot : slots) {
    if (!fetcher_.Begin(slot, from.servers[from.slot_owner[slot.value]])) continue;
    if (leaving_slots_.contains(slot)) ReleaseSlot(slot);  // it comes back
    release_.erase(slot);  // from an earlier move: its old owner may be the same one again
    const auto fewest = std::min_element(held.begin(), held.end());
    ++*fewest;
    places.emplace_back(slot, static_cast<uint32_t>(fewest - held.begin()));
  }
  MakeRoom(places);
}

// An executor makes room for all that come to it at once.
void ServerCore::MakeRoom(const InnerMoves& places) {
  std::map<uint32_t, std::vector<SlotId>> coming;
  for (const auto& [slot, executor] : places) {
    executor_of_[slot.value] = executor;
    coming[executor].push_back(slot);
  }
  for (auto& [executor, slots] : coming) {
    DoSlotJob({SlotJob::Kind::kReserve, std::move(slots), executor});
  }
}

// Ends copies; who has the slots need not follow them any more. If it is not told it does so until
// the next plan.
void ServerCore::GiveUp(const std::vector<SlotId>& slots) {
  if (slots.empty()) return;
  for (const SlotId slot : slots) {
    const std::optional<PlanServer> from = fetcher_.SourceOf(slot);
    if (from && from->incarnation != identity_.incarnation) {
      effects_.to_servers.emplace_back(from->address,
                                       Envelop(SlotPull{.slot = slot.value, .release = true}));
    }
    fetcher_.Give(slot);
  }
  DoSlotJob({SlotJob::Kind::kDiscard, slots});
}

void ServerCore::OnMoveSlots(const MoveSlots& move, int64_t now_ms) {
  if (!loaded_ || switch_ || without_slots_ || next_plan_) return;  // the scheduler sends it again
  if (move.move == move_) {
    if (move_ready_)
      effects_.to_scheduler.push_back(Envelop(MoveReady{move_, fetcher_.bytes(), 0}));
    return;
  }
  if (move.move == 0) return;  // 0 stands for no move here
  std::vector<SlotId> wanted;
  for (size_t i = 0; i < move.slots.size(); ++i) {
    const uint32_t slot = move.slots[i];
    const bool sensible = slot < plan_->slot_owner.size() && plan_->slot_owner[slot] != index_ &&
                          move.from[i] == plan_->slot_owner[slot];
    if (!sensible) return;
    wanted.push_back({slot});
  }
  std::sort(wanted.begin(), wanted.end());
  GiveUp(Without(fetcher_.slots(), wanted));
  move_ = move.move;
  move_ready_ = wanted.empty();
  fetcher_.Limit(move.bytes_per_second);
  Reserve(wanted, *plan_);
  AdvanceMoves(now_ms);
}

// The next plan of this generation. From here on no row of the slots that go changes here, and what
// workers had under way is begun again.
void ServerCore::BeginPlanSwitch(const Plan& plan, std::optional<uint32_t> index, int64_t now_ms) {
  if (saving_ || switch_) {
    next_plan_ = plan;
    return;
  }
  const Plan before = std::exchange(*plan_, plan);
  switch_ = PlanSwitch{before.version, now_ms * 1000, {}};
  saved_ = CheckpointDone();  // of other slots
  const std::vector<SlotId> had =
      without_slots_ ? std::vector<SlotId>() : SlotsOf(before, {index_});
  without_slots_ = !index;
  index_ = index.value_or(0);
  for (auto& [step, open] : waiting_) {
    ReplyTo(open.asker,
            ErrorReply{ErrorCode::kStalePlan, fmt::format("the slot plan is {}", plan.version)},
            now_ms * 1000);
  }
  waiting_.clear();

  const std::vector<SlotId> have = OwnSlots();
  std::vector<SlotId> leaving = Without(had, have), arriving = Without(have, had);
  GiveUp(Without(fetcher_.slots(), arriving));
  const auto inner = without_slots_ ? InnerMoves() : PlanInnerMoves(Without(have, arriving));
  for (const auto& [slot, executor] : inner) leaving.push_back(slot);
  for (const SlotId slot : leaving) {
    leaving_slots_[slot] = {plan.servers[plan.slot_owner[slot.value]].incarnation, plan.version};
  }
  DoSlotJob({SlotJob::Kind::kSwitchPlan, leaving});
  Reserve(arriving, before);
  for (const auto& [slot, executor] : inner) {
    (void)fetcher_.Begin(slot, {given_name_, "", identity_.incarnation});
    arriving.push_back(slot);
  }
  MakeRoom(inner);
  for (const SlotId slot : arriving) fetcher_.Complete(slot);
  switch_->arriving = std::move(arriving);
  if (!leaving.empty() || !switch_->arriving.empty()) {
    effects_.notices.push_back(fmt::format(
        "slot plan {}: {} slots go, {} come, {} change executors", plan.version,
        leaving.size() - inner.size(), switch_->arriving.size() - inner.size(), inner.size()));
  }
  TakeEarly();  // pulls of those that have switched plans already
  AdvanceMoves(now_ms);
}

// Which slots go to another executor of this server, so that all have as much to do.
ServerCore::InnerMoves ServerCore::PlanInnerMoves(const std::vector<SlotId>& staying) const {
  if (executors_ == 1 || IsSynchronous(config_->train) ||
      config_->cluster.balance == Balance::kOff) {
    return {};
  }
  std::vector<BalanceSlot> slots;
  for (const SlotId slot : staying) {
    const auto work = slot_work_.find(slot);
    if (work == slot_work_.end()) return {};  // not measured yet
    slots.push_back({work->second, 1, executor_of_[slot.value]});
  }
  BalanceOptions options;
  options.threshold = config_->cluster.balance_threshold;
  options.goal = std::min(options.goal, options.threshold);
  InnerMoves moves;
  for (const SlotMove& move :
       PlanBalance(std::vector<BalanceOwner>(executors_), slots, options).moves) {
    moves.emplace_back(staying[move.slot], move.to);
  }
  return moves;
}

// Parts of slots that the executors have before them.
size_t ServerCore::OpenPuts() const {
  return static_cast<size_t>(std::ranges::count_if(open_, [](const auto& entry) {
    return entry.second.kind == Open::Kind::kSlotJob &&
           entry.second.job->kind == SlotJob::Kind::kPut;
  }));
}

void ServerCore::Pull(int64_t now_ms) {
  // Executors that are slower than the network slow down who sends.
  std::vector<SlotFetcher::Due> dues;
  if (OpenPuts() < kMaxPuts) dues = fetcher_.TakeDue(now_ms);
  for (const SlotFetcher::Due& due : dues) {
    if (due.from.incarnation == identity_.incarnation) {
      Submit(Open(Open::Kind::kOwnPull, due.pull));
      continue;
    }
    const SlotId slot{due.pull.slot};
    std::erase_if(pulls_, [&](const auto& entry) { return entry.second == slot; });
    effects_.to_servers.emplace_back(due.from.address, Envelop(due.pull));
    pulls_[next_sequence_ - 1] = slot;
  }
  for (auto& [slot, release] : release_) {
    if (now_ms < release.next_ms) continue;
    release.next_ms = now_ms + kReleaseAgainMs;
    release.tries++;
    effects_.to_servers.emplace_back(release.to.address,
                                     Envelop(SlotPull{.slot = slot.value, .release = true}));
    pulls_[next_sequence_ - 1] = slot;
  }
  // An old owner that does not answer is gone, and what it kept with it.
  std::erase_if(release_, [](const auto& e) { return e.second.tries > kReleaseTries; });
}

ServerCore::Effects ServerCore::HandleServer(Message message, int64_t now_us) {
  const auto found = pulls_.find(message.envelope.reply_to);
  if (found == pulls_.end()) return Drain();  // of an earlier life, or asked again since
  const SlotId slot = found->second;
  pulls_.erase(found);
  if (auto* rows = std::get_if<SlotRows>(&message.body)) {
    TakeRows(std::move(*rows), now_us / 1000);
  } else if (std::holds_alternative<Ack>(message.body)) {
    release_.erase(slot);
  } else {
    fetcher_.Refused(slot, now_us / 1000);
  }
  return Drain();
}

void ServerCore::TakeRows(SlotRows rows, int64_t now_ms) {
  if (!fetcher_.Take(rows, now_ms)) return;
  if (!rows.rows.empty() || rows.last) {
    SlotJob job{SlotJob::Kind::kPut, {{rows.slot}}};
    job.rows = std::make_shared<const SlotRows>(std::move(rows));
    DoSlotJob(std::move(job));
  }
  AdvanceMoves(now_ms);
}

void ServerCore::AdvanceMoves(int64_t now_ms) {
  Pull(now_ms);
  if (switch_) {
    if (switch_->attaching || !fetcher_.AllThere()) return;
    switch_->attaching = true;
    DoSlotJob({SlotJob::Kind::kAttach, switch_->arriving});
  } else if (!move_ready_ && move_ != 0 && fetcher_.AllRest()) {
    move_ready_ = true;
    effects_.to_scheduler.push_back(
        Envelop(MoveReady{move_, fetcher_.bytes(), fetcher_.left_bytes()}));
  }
}

void ServerCore::CompleteSlotJob(const SlotJob& job, const std::vector<Body>& parts,
                                 int64_t now_us) {
  std::set<SlotId> attached;
  for (const Body& part : parts) {
    if (const auto* error = std::get_if<ErrorReply>(&part)) {
      return OnFailedSlotJob(job, error->text, now_us / 1000);
    }
    if (const auto* named = std::get_if<MoveSlots>(&part)) {
      for (const uint32_t slot : named->slots) attached.insert({slot});
    }
  }
  if (job.kind == SlotJob::Kind::kPut) AdvanceMoves(now_us / 1000);
  if (job.kind != SlotJob::Kind::kAttach) return;
  for (const SlotId slot : job.slots) {
    if (!attached.contains(slot)) {
      return OnFailedSlotJob(job, fmt::format("slot {} is with no executor", slot.value),
                             now_us / 1000);
    }
  }
  CompletePlanSwitch(now_us);
}

// While it only copies the slot is safe with its owner: the copy begins again when the scheduler
// repeats its order, which it gives up at last. Once the plan gives the slot to this server the
// plan cannot be kept without it, and the scheduler goes back to the last checkpoint.
void ServerCore::OnFailedSlotJob(const SlotJob& job, const std::string& why, int64_t now_ms) {
  const bool copies = job.kind == SlotJob::Kind::kReserve || job.kind == SlotJob::Kind::kPut;
  if (switch_ || !copies) {
    effects_.warnings.push_back("a slot could not be taken: " + why);
    return BeginNewLife(now_ms);
  }
  effects_.warnings.push_back("a slot is not copied: " + why);
  GiveUp(job.slots);
  move_ = 0;
  move_ready_ = false;
}

void ServerCore::CompletePlanSwitch(int64_t now_us) {
  const PlanSwitch plan_switch = *std::exchange(switch_, std::nullopt);
  ready_.plan_version = plan_->version;
  ready_.rows = 0;
  for (const SlotId slot : OwnSlots()) {
    for (const uint32_t ids : {config_->model.features + 1, config_->model.labels}) {
      ready_.rows += SlotMap::SlotSize(ids, config_->cluster.slots, slot);
    }
  }
  ready_.moved_bytes = ready_.slot_bytes = 0;
  ready_.stall_us = static_cast<uint32_t>(now_us - plan_switch.began_us);
  for (const SlotId slot : plan_switch.arriving) {
    const PlanServer from = *fetcher_.SourceOf(slot);
    if (from.incarnation == identity_.incarnation) {
      ReleaseSlot(slot);
    } else {
      release_[slot] = {from, 0, 0};
      ready_.moved_bytes += fetcher_.BytesOf(slot);
      ready_.slot_bytes += fetcher_.ContentOf(slot);
    }
  }
  fetcher_.Clear();
  move_ = 0;
  move_ready_ = false;
  if (!without_slots_) effects_.to_scheduler.push_back(Envelop(ready_));
  LeaveIfEmpty();
  Pull(now_us / 1000);
  TakeEarly();
  if (const auto plan = std::exchange(next_plan_, std::nullopt)) OnPlan(*plan, now_us / 1000);
}

bool ServerCore::IsOfPlan(Incarnation server) const {
  return std::ranges::any_of(plan_->servers,
                             [&](const PlanServer& s) { return s.incarnation == server; });
}

bool ServerCore::MayAsk(const std::string& address) const {
  if (!plan_) return false;
  const auto is_there = [&](const PlanServer& server) { return server.address == address; };
  return std::ranges::any_of(plan_->servers, is_there) ||
         std::ranges::any_of(fetcher_.slots(),
                             [&](SlotId slot) { return is_there(*fetcher_.SourceOf(slot)); }) ||
         std::ranges::any_of(release_, [&](const auto& e) { return is_there(e.second.to); });
}

// From another server, which has the sender's incarnation in the plan.
void ServerCore::OnSlotPull(const PeerId& peer, const Message& message, const SlotPull& pull,
                            int64_t now_us) {
  const Envelope& envelope = message.envelope;
  const SlotId slot{pull.slot};
  if (slot.value >= plan_->slot_owner.size() || !IsOfPlan(envelope.incarnation)) {
    return Refuse(
        peer, envelope.sequence,
        {ErrorCode::kRefused, "SlotPull: no such slot, or not from a server of the plan"});
  }
  Open open(Open::Kind::kRequest, pull);
  open.asker = {peer, envelope.incarnation, envelope.sequence, WirePrecision::kFp32, now_us};
  Submit(std::move(open));
}

// The new owner lets go by the plan that gave it the slot or a later one: it may have given the
// slot on since. What says an older plan is of an earlier move of the slot.
void ServerCore::OnRelease(const PeerId& peer, const Envelope& envelope, SlotId slot,
                           int64_t now_us) {
  const auto leaving = leaving_slots_.find(slot);
  if (leaving != leaving_slots_.end() && leaving->second.to == envelope.incarnation &&
      envelope.plan_version >= leaving->second.plan_version) {
    ReleaseSlot(slot);
  } else if (leaving == leaving_slots_.end() && IsOfPlan(envelope.incarnation) &&
             envelope.plan_version == plan_->version && slot.value < plan_->slot_owner.size()) {
    DoSlotJob({SlotJob::Kind::kForgetCopy, {slot}});  // the sender does not take it, after all
  }
  ReplyTo({peer, envelope.incarnation, envelope.sequence, WirePrecision::kFp32, now_us}, Ack{},
          now_us);
  LeaveIfEmpty();
}

void ServerCore::ReleaseSlot(SlotId slot) {
  leaving_slots_.erase(slot);
  DoSlotJob({SlotJob::Kind::kRelease, {slot}});
}

void ServerCore::LeaveIfEmpty() {
  if (!without_slots_ || switch_ || !leaving_slots_.empty() || effects_.exit) return;
  effects_.notices.push_back("all its slots are with others");
  effects_.exit = Status();
}

}  // namespace dslide
