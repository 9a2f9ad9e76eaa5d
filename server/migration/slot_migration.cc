#include "server/migration/slot_migration.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "common/balance/planner.h"
#include "common/base/check.h"
#include "common/base/plural.h"
#include "server/base/events.h"
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

SlotPull ReleaseOf(SlotId slot) { return {.slot = slot.value, .release = true}; }

}  // namespace

std::vector<std::vector<SlotId>> SlotMigration::Place(const ServerSeat& seat) {
  std::vector<std::vector<SlotId>> placed =
      DivideSlots(seat.OwnSlots(), seat.config.cluster, seat.executors);
  executor_of_.assign(seat.plan.slot_owner.size(), 0);
  for (uint32_t executor = 0; executor < placed.size(); ++executor) {
    for (const SlotId slot : placed[executor]) executor_of_[slot.value] = executor;
  }
  return placed;
}

void SlotMigration::OnMoveSlots(const MoveSlots& move, const ServerSeat& seat, int64_t now_ms,
                                ServerOutbox* out) {
  if (move.move == move_) {
    if (move_ready_) out->ToScheduler(MoveReady{move_, fetcher_.bytes(), 0});
    return;
  }
  if (move.move == 0) return;  // no move has that number
  std::vector<SlotId> wanted;
  for (size_t i = 0; i < move.slots.size(); ++i) {
    const uint32_t slot = move.slots[i];
    const std::vector<uint16_t>& owner = seat.plan.slot_owner;
    const bool sensible =
        slot < owner.size() && owner[slot] != seat.index && move.from[i] == owner[slot];
    if (!sensible) return;
    wanted.push_back({slot});
  }
  std::sort(wanted.begin(), wanted.end());
  GiveUp(Without(fetcher_.slots(), wanted), seat, out);
  move_ = move.move;
  move_ready_ = wanted.empty();
  fetcher_.Limit(move.bytes_per_second);
  Reserve(wanted, seat.plan, seat, out);
  Advance(seat, now_ms, out);
}

void SlotMigration::ForgetMove() {
  move_ = 0;
  move_ready_ = false;
}

// Begins the copies of slots, each to the executor with the fewest slots of its kind; an earlier
// copy of a slot from another server is forgotten.
void SlotMigration::Reserve(const std::vector<SlotId>& slots, const Plan& from,
                            const ServerSeat& seat, ServerOutbox* out) {
  const SlotRange with_neurons = OutputSlots(seat.config.cluster);
  std::array<std::vector<size_t>, 2> of_kind;
  of_kind.fill(std::vector<size_t>(seat.executors));
  const auto held_with = [&](SlotId slot) -> std::vector<size_t>& {
    return of_kind[with_neurons.Has(slot) ? 1 : 0];
  };
  const auto count = [&](SlotId slot) { held_with(slot)[executor_of_[slot.value]]++; };
  std::ranges::for_each(Without(seat.OwnSlots(), slots), count);
  std::ranges::for_each(fetcher_.slots(), count);
  Places places;
  for (const SlotId slot : slots) {
    if (!fetcher_.Begin(slot, from.servers[from.slot_owner[slot.value]])) continue;
    if (leaving_.contains(slot)) ReleaseSlot(slot, out);  // it comes back
    release_.erase(slot);  // from an earlier move: its old owner may be the same one again
    std::vector<size_t>& held = held_with(slot);
    const auto fewest = std::min_element(held.begin(), held.end());
    ++*fewest;
    places.emplace_back(slot, static_cast<uint32_t>(fewest - held.begin()));
  }
  MakeRoom(places, out);
}

// An executor makes room for all slots that come to it at once.
void SlotMigration::MakeRoom(const Places& places, ServerOutbox* out) {
  std::map<uint32_t, std::vector<SlotId>> coming;
  for (const auto& [slot, executor] : places) {
    executor_of_[slot.value] = executor;
    coming[executor].push_back(slot);
  }
  for (auto& [executor, slots] : coming) {
    out->Submit(SlotJob{SlotJob::Kind::kReserve, std::move(slots), executor});
  }
}

// Ends copies. The slots' owners need not follow them any more; one that does not hear of it
// follows them until the next plan.
void SlotMigration::GiveUp(const std::vector<SlotId>& slots, const ServerSeat& seat,
                           ServerOutbox* out) {
  if (slots.empty()) return;
  for (const SlotId slot : slots) {
    const std::optional<PlanServer> from = fetcher_.SourceOf(slot);
    if (from && from->incarnation != seat.self) out->ToServer(*from, ReleaseOf(slot));
    fetcher_.GiveUp(slot);
  }
  out->Submit(SlotJob{SlotJob::Kind::kDiscard, slots});
}

void SlotMigration::BeginSwitch(const Plan& before, const std::vector<SlotId>& had,
                                const ServerSeat& seat, const std::map<SlotId, double>& slot_work,
                                int64_t now_ms, ServerOutbox* out) {
  DSLIDE_CHECK(!switch_);
  switch_ = Switch{before.version, now_ms * 1000, {}};
  const std::vector<SlotId> have = seat.OwnSlots();
  std::vector<SlotId> leaving = Without(had, have), arriving = Without(have, had);
  GiveUp(Without(fetcher_.slots(), arriving), seat, out);
  const Places inner =
      seat.index ? PlanInnerMoves(Without(have, arriving), seat, slot_work) : Places();
  for (const auto& [slot, executor] : inner) leaving.push_back(slot);
  for (const SlotId slot : leaving) {
    const PlanServer& owner = seat.plan.servers[seat.plan.slot_owner[slot.value]];
    leaving_[slot] = {owner.incarnation, seat.plan.version};
  }
  SlotJob job{SlotJob::Kind::kSwitchPlan, leaving};
  const ModelShape &now = seat.plan.shape, &then = before.shape;
  if (now.epoch > then.epoch || now.samples != then.samples) {
    job.shape = std::make_shared<const ModelShape>(seat.plan.shape);
  }
  if (seat.plan.settings != before.settings) job.config = std::make_shared<Config>(seat.config);
  out->Submit(std::move(job));
  Reserve(arriving, before, seat, out);
  for (const auto& [slot, executor] : inner) {
    (void)fetcher_.Begin(slot, {"", "", seat.self});
    arriving.push_back(slot);
  }
  MakeRoom(inner, out);
  for (const SlotId slot : arriving) fetcher_.Complete(slot);
  if (!leaving.empty() || !arriving.empty()) {
    const size_t left = leaving.size() - inner.size(), arrived = arriving.size() - inner.size();
    out->Notice({event::kSlotsMoving,
                 fmt::format("slot plan {}: slots leaving {}, arriving {}, changing executors {}",
                             seat.plan.version, left, arrived, inner.size()),
                 {{"map", seat.plan.version},
                  {"leaving", left},
                  {"arriving", arrived},
                  {"changing_executors", inner.size()}}});
  }
  switch_->arriving = std::move(arriving);
}

// Which slots go to another executor of this server, so that all have as much to do.
SlotMigration::Places SlotMigration::PlanInnerMoves(
    const std::vector<SlotId>& staying, const ServerSeat& seat,
    const std::map<SlotId, double>& slot_work) const {
  if (seat.executors == 1 || IsSynchronous(seat.config.train) ||
      seat.config.cluster.balance == Balance::kOff) {
    return {};
  }
  std::vector<BalanceSlot> slots;
  for (const SlotId slot : staying) {
    const auto work = slot_work.find(slot);
    if (work == slot_work.end()) return {};  // not measured yet
    slots.push_back({work->second, 1, executor_of_[slot.value]});
  }
  Places places;
  for (const SlotMove& move :
       PlanBalance(std::vector<BalanceOwner>(seat.executors), slots, BalanceOptions{}).moves) {
    places.emplace_back(staying[move.slot], move.to);
  }
  return places;
}

void SlotMigration::Advance(const ServerSeat& seat, int64_t now_ms, ServerOutbox* out) {
  Pull(seat, now_ms, out);
  if (switch_) {
    if (switch_->attaching || !fetcher_.AllThere()) return;
    switch_->attaching = true;
    out->Submit(SlotJob{SlotJob::Kind::kAttach, switch_->arriving});
  } else if (!move_ready_ && move_ != 0 && fetcher_.AllColdThere()) {
    move_ready_ = true;
    out->ToScheduler(MoveReady{move_, fetcher_.bytes(), fetcher_.left_bytes()});
  }
}

void SlotMigration::Pull(const ServerSeat& seat, int64_t now_ms, ServerOutbox* out) {
  // Executors that are slower than the network slow the sender down.
  std::vector<SlotFetcher::Due> dues;
  if (open_puts_ < kMaxPuts) dues = fetcher_.TakeDue(now_ms);
  for (const SlotFetcher::Due& due : dues) {
    if (due.from.incarnation == seat.self) {
      out->Submit(OwnPull{due.pull}, RequestJob{{}, std::make_shared<const Body>(due.pull)});
      continue;
    }
    const SlotId slot{due.pull.slot};
    std::erase_if(pulls_, [&](const auto& entry) { return entry.second == slot; });
    pulls_[out->ToServer(due.from, due.pull)] = slot;
  }
  for (auto& [slot, release] : release_) {
    if (now_ms < release.next_ms) continue;
    release.next_ms = now_ms + kReleaseAgainMs;
    release.tries++;
    pulls_[out->ToServer(release.to, ReleaseOf(slot))] = slot;
  }
  // An old owner that does not answer is gone, and what it kept with it.
  std::erase_if(release_, [](const auto& e) { return e.second.tries > kReleaseTries; });
}

void SlotMigration::OnAnswer(Message message, const ServerSeat& seat, int64_t now_ms,
                             ServerOutbox* out) {
  const auto found = pulls_.find(message.envelope.reply_to);
  if (found == pulls_.end()) return;  // of an earlier life, or it was asked again since
  const SlotId slot = found->second;
  pulls_.erase(found);
  if (auto* rows = std::get_if<SlotRows>(&message.body)) {
    TakeRows(std::move(*rows), seat, now_ms, out);
  } else if (std::holds_alternative<Ack>(message.body)) {
    release_.erase(slot);
  } else {
    fetcher_.Refused(slot, now_ms);
  }
}

void SlotMigration::Complete(const OwnPull& own, std::vector<JobReply> parts,
                             const ServerSeat& seat, int64_t now_ms, ServerOutbox* out) {
  Body reply = GatherReplies(own.pull, BodiesOf(std::move(parts)));
  if (auto* rows = std::get_if<SlotRows>(&reply)) {
    return TakeRows(std::move(*rows), seat, now_ms, out);
  }
  fetcher_.Refused({own.pull.slot}, now_ms);
}

void SlotMigration::TakeRows(SlotRows rows, const ServerSeat& seat, int64_t now_ms,
                             ServerOutbox* out) {
  if (!fetcher_.Take(rows, now_ms)) return;
  if (!rows.rows.empty() || rows.last) {
    SlotJob put{SlotJob::Kind::kPut, {{rows.slot}}};
    put.rows = std::make_shared<const SlotRows>(std::move(rows));
    open_puts_++;
    out->Submit(std::move(put));
  }
  Advance(seat, now_ms, out);
}

SlotMigration::Outcome SlotMigration::Complete(const SlotJob& job,
                                               const std::vector<JobReply>& parts,
                                               const ServerSeat& seat, int64_t now_ms,
                                               ServerOutbox* out) {
  if (job.kind == SlotJob::Kind::kPut) open_puts_--;
  std::set<SlotId> attached;
  for (const JobReply& part : parts) {
    if (const auto* error = std::get_if<Error>(&part)) return Fail(job, error->message, seat, out);
    for (const SlotId slot : std::get<Attached>(part).slots) attached.insert(slot);
  }
  if (job.kind == SlotJob::Kind::kPut) Advance(seat, now_ms, out);
  if (job.kind != SlotJob::Kind::kAttach) return Outcome::kGoesOn;
  for (const SlotId slot : job.slots) {
    if (!attached.contains(slot)) {
      return Fail(job, fmt::format("slot {} is with no executor", slot.value), seat, out);
    }
  }
  return Outcome::kAttached;
}

// While a slot is only copied it is safe with its owner: the copy begins again when the scheduler
// repeats its order, and at last the scheduler gives the move up. Once the plan gives the slot to
// this server the plan cannot be kept without it, and the scheduler goes back to the last
// checkpoint.
SlotMigration::Outcome SlotMigration::Fail(const SlotJob& job, const std::string& why,
                                           const ServerSeat& seat, ServerOutbox* out) {
  const bool copies = job.kind == SlotJob::Kind::kReserve || job.kind == SlotJob::Kind::kPut;
  // A switch can begin while room is being made for a move that its plan does not make.
  const bool needed = switch_ && std::ranges::any_of(job.slots, [&](SlotId slot) {
                        return std::ranges::count(switch_->arriving, slot) > 0;
                      });
  if (needed || !copies) {
    out->Warn({event::kSlotLost, "a slot could not be taken: " + why});
    return Outcome::kLost;
  }
  out->Warn({event::kSlotNotCopied, "a slot is not copied: " + why});
  GiveUp(job.slots, seat, out);
  if (!switch_) ForgetMove();
  return Outcome::kGoesOn;
}

SlotMigration::Switched SlotMigration::TakeSwitch(const ServerSeat& seat, int64_t now_us,
                                                  ServerOutbox* out) {
  const Switch ended = *std::exchange(switch_, std::nullopt);
  Switched switched;
  switched.stall_us = static_cast<uint32_t>(now_us - ended.began_us);
  for (const SlotId slot : ended.arriving) {
    const PlanServer from = *fetcher_.SourceOf(slot);
    if (from.incarnation == seat.self) {
      ReleaseSlot(slot, out);
    } else {
      release_[slot] = {from, 0, 0};
      switched.moved_bytes += fetcher_.BytesOf(slot);
      switched.slot_bytes += fetcher_.ContentOf(slot);
    }
  }
  fetcher_.Clear();
  ForgetMove();
  return switched;
}

// A new owner lets go by the plan that gave it the slot or by a later one: it may have given the
// slot on since. A release by an older plan is of an earlier move of the slot.
void SlotMigration::OnRelease(const Envelope& envelope, SlotId slot, const ServerSeat& seat,
                              ServerOutbox* out) {
  const auto leaving = leaving_.find(slot);
  if (leaving != leaving_.end()) {
    const Departure& departure = leaving->second;
    if (departure.to == envelope.incarnation && envelope.plan_version >= departure.plan_version) {
      ReleaseSlot(slot, out);
    }
  } else if (HasServer(seat.plan, envelope.incarnation) &&
             envelope.plan_version == seat.plan.version &&
             slot.value < seat.plan.slot_owner.size()) {
    out->Submit(SlotJob{SlotJob::Kind::kForgetCopy, {slot}});  // the sender does not take it
  }
}

void SlotMigration::ReleaseSlot(SlotId slot, ServerOutbox* out) {
  leaving_.erase(slot);
  out->Submit(SlotJob{SlotJob::Kind::kRelease, {slot}});
}

bool SlotMigration::MayAsk(const std::function<bool(const PlanServer&)>& is_it) const {
  return std::ranges::any_of(fetcher_.slots(),
                             [&](SlotId slot) { return is_it(*fetcher_.SourceOf(slot)); }) ||
         std::ranges::any_of(release_, [&](const auto& e) { return is_it(e.second.to); });
}

void SlotMigration::CheckInvariants(const ServerSeat& seat) const {
  DSLIDE_CHECK(executor_of_.size() == seat.plan.slot_owner.size());
  DSLIDE_CHECK(move_ != 0 || !move_ready_);
  DSLIDE_CHECK(!switch_ || switch_->from_version < seat.plan.version);
  DSLIDE_CHECK(!switch_ || !switch_->attaching || fetcher_.AllThere());
}

}  // namespace dslide
