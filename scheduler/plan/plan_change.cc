#include "scheduler/plan/plan_change.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

constexpr int64_t kOrderAgainMs = 2000;  // a MoveSlots without its MoveReady
constexpr int64_t kPauseSlackMs = 1000;  // for the plan to come to the workers

std::string Megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

Event SwitchEvent(const Plan& plan, const PlanSwitchReport& report) {
  std::string line =
      fmt::format("slot plan {}: {} over {}, {} moved ({}), {} ms stall", plan.version,
                  Plural(plan.slot_owner.size(), "slot"), Plural(plan.servers.size(), "server"),
                  report.slots, Megabytes(report.bytes), (report.stall_us + 999) / 1000);
  if (report.paused_ms > 0) {
    line += fmt::format(" after {} ms without new batches", report.paused_ms);
  }
  if (report.unpaused > 0) {
    line += fmt::format("; those of {} begin again", Plural(report.unpaused, "worker"));
  }
  return {event::kSlotMapTaken,
          std::move(line),
          {{"map", plan.version},
           {"servers", plan.servers.size()},
           {"slots_moved", report.slots},
           {"bytes", report.bytes},
           {"stall_us", report.stall_us},
           {"paused_ms", report.paused_ms}}};
}

}  // namespace

PlanChange::State PlanChange::state() const {
  if (switch_) return State::kSwitching;
  if (pause_ || wanted_ms_) return State::kPausing;
  return wave_ ? State::kCopying : State::kIdle;
}

uint32_t PlanChange::PauseMs(int64_t now_ms) const {
  if (!pause_) return 0;
  return static_cast<uint32_t>(std::max(int64_t{0}, pause_->until_ms - now_ms) + kPauseSlackMs);
}

void PlanChange::BeginWave(SlotWave slots, const Plan& plan, const Roster& roster, int64_t now_ms,
                           Outbox* out) {
  DSLIDE_CHECK(!wave_ && !switch_);
  wave_ = Wave{};
  wave_->id = next_wave_++;
  wave_->began_ms = wave_->sent_ms = now_ms;
  wave_->slots = std::move(slots);
  if (!wave_->slots.copied_before) return;
  for (const SlotMove& move : wave_->slots.moves) {
    MoveSlots& order = wave_->orders[plan.servers[move.to].incarnation];
    order.move = wave_->id;
    order.bytes_per_second = wave_->slots.bytes_per_second;
    order.slots.push_back(move.slot);
    order.from.push_back(static_cast<uint16_t>(move.from));
  }
  for (const auto& [target, order] : wave_->orders) {
    wave_->waiting.insert(target);
    if (const Member* member = roster.Find(target)) out->Send(*member, order);
  }
}

void PlanChange::OnMoveReady(Incarnation target, const MoveReady& ready) {
  if (wave_ && ready.move == wave_->id) wave_->waiting.erase(target);
}

bool PlanChange::Advance(const Conditions& conditions, const Roster& roster, int64_t now_ms,
                         Outbox* out) {
  if (wave_ && !AdvanceCopies(roster, now_ms, out)) return false;
  if (!conditions.quiet) {
    wanted_ms_ = now_ms;
    return false;
  }
  return conditions.in_steps || NothingInFlight(conditions, roster, now_ms);
}

// True: all targets have their copies.
bool PlanChange::AdvanceCopies(const Roster& roster, int64_t now_ms, Outbox* out) {
  if (wave_->waiting.empty()) return true;
  if (now_ms - wave_->began_ms > wave_->slots.patience_ms) {
    const size_t slots = wave_->slots.moves.size();
    out->Decide({event::kCopiesLate,
                 fmt::format("{} not copied within {} s: given up, the owners stay",
                             Plural(slots, "slot"), wave_->slots.patience_ms / 1000),
                 {{"slots", slots}, {"patience_ms", wave_->slots.patience_ms}}},
                now_ms);
    Cancel(roster, out);
  } else if (now_ms - wave_->sent_ms >= kOrderAgainMs) {
    wave_->sent_ms = now_ms;
    for (const Incarnation target : wave_->waiting) {
      if (const Member* member = roster.Find(target)) out->Send(*member, wave_->orders.at(target));
    }
  }
  return false;
}

// True: the batches in flight have ended, or take twice as long as they should.
bool PlanChange::NothingInFlight(const Conditions& conditions, const Roster& roster,
                                 int64_t now_ms) {
  if (!pause_) {
    if (conditions.batch_ms == 0) return true;
    pause_ = Pause{};
    pause_->since_ms = now_ms;
    pause_->until_ms = now_ms + std::min(conditions.longest_pause_ms,
                                         static_cast<int64_t>(2 * conditions.batch_ms));
    pause_->batch_ms = conditions.batch_ms;
    for (const Member* worker : roster.Of(Role::kWorker)) {
      pause_->waiting.insert(worker->incarnation);
    }
  }
  pause_->wanted = true;
  std::erase_if(pause_->waiting, [&](Incarnation incarnation) {
    const Member* worker = roster.Find(incarnation);
    return worker == nullptr || worker->life.Suspect(now_ms);
  });
  return pause_->waiting.empty() || now_ms >= pause_->until_ms;
}

void PlanChange::EndUnwanted(int64_t patience_ms, int64_t now_ms) {
  if (wanted_ms_ && now_ms - *wanted_ms_ > patience_ms) wanted_ms_.reset();
  if (pause_ && !std::exchange(pause_->wanted, false)) pause_.reset();
}

void PlanChange::Cancel(const Roster& roster, Outbox* out) {
  wanted_ms_.reset();
  if (!wave_) return;
  for (const auto& [target, order] : wave_->orders) {
    const Member* member = roster.Find(target);
    if (member != nullptr) out->Send(*member, MoveSlots{next_wave_, {}, {}, 0});
  }
  next_wave_++;
  wave_.reset();
}

void PlanChange::OnIdle(Incarnation worker) {
  if (pause_) pause_->waiting.erase(worker);
}

Plan PlanChange::PlanAfterWave(const Plan& before) const {
  Plan next = before;
  for (const SlotMove& move : wave_->slots.moves) {
    next.slot_owner[move.slot] = static_cast<uint16_t>(move.to);
  }
  return next;
}

void PlanChange::BeginSwitch(const Plan& before, int64_t now_ms) {
  switch_.emplace();
  if (wave_) {
    switch_->report.slots = wave_->slots.moves.size();
    for (const SlotMove& move : wave_->slots.moves) {
      switch_->sources.insert(before.servers[move.from].incarnation);
    }
  }
  if (pause_) {
    switch_->report.batch_ms = pause_->batch_ms;
    switch_->report.paused_ms = now_ms - pause_->since_ms;
    switch_->report.unpaused = pause_->waiting.size();
  }
  wave_.reset();
  pause_.reset();
  wanted_ms_.reset();
}

std::optional<PlanSwitchReport> PlanChange::OnReady(const Ready& ready, const Plan& plan,
                                                    const Roster& roster, Outbox* out) {
  if (!switch_) return std::nullopt;
  PlanSwitchReport& report = switch_->report;
  report.bytes += ready.moved_bytes;
  report.slot_bytes += ready.slot_bytes;
  report.stall_us = std::max(report.stall_us, ready.stall_us);
  if (!roster.AllReady()) return std::nullopt;
  const PlanSwitchReport complete = report;
  switch_.reset();
  // Without fixed sizes each epoch has a plan, and most of them move nothing.
  if (plan.shape.epoch == 0 || complete.slots > 0) out->Notice(SwitchEvent(plan, complete));
  return complete;
}

bool PlanChange::SourceGone(const Roster& roster) const {
  return switch_ && std::any_of(switch_->sources.begin(), switch_->sources.end(),
                                [&](Incarnation source) { return roster.Find(source) == nullptr; });
}

void PlanChange::CheckInvariants() const {
  DSLIDE_CHECK(!switch_ || (!wave_ && !pause_ && !wanted_ms_));
  DSLIDE_CHECK(!wave_ || !wave_->slots.moves.empty());
  DSLIDE_CHECK(!wave_ || wave_->id < next_wave_);
  DSLIDE_CHECK(!wave_ || wave_->waiting.size() <= wave_->orders.size());
  DSLIDE_CHECK(!pause_ || pause_->until_ms >= pause_->since_ms);
}

}  // namespace dslide
