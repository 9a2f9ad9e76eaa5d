#include "scheduler/plan/plan_change.h"
#include "scheduler/base/events.h"
#include "tests/scheduler/support/actions.h"
#include "tests/support/events.h"

#include <doctest/doctest.h>

namespace dslide::plan_change_test {
namespace {

using State = PlanChange::State;

constexpr Incarnation kSource{1}, kTarget{2}, kWorker{11};

struct Setup {
  Setup() {
    Join join;
    join.role = Role::kServer;
    for (const Incarnation server : {kSource, kTarget}) {
      Member& member = roster.Add(join, server, "s" + std::to_string(server.value), 0);
      member.seated = member.ready = true;
      plan.servers.push_back(member.Seat());
    }
    plan.version = 4;
    plan.slot_owner = {0, 0, 1};
    join.role = Role::kWorker;
    roster.Add(join, kWorker, "w", 0);
    conditions.batch_ms = 100;
    conditions.longest_pause_ms = 5000;
  }
  // Slot 1 moves from the first server to the second.
  static SlotWave Wave(bool copied_before) {
    SlotWave wave;
    wave.moves = {{1, 0, 1}};
    wave.copied_before = copied_before;
    wave.patience_ms = 600'000;
    return wave;
  }
  void Begin(bool copied_before) {
    change.BeginWave(Wave(copied_before), plan, roster, now_ms, &out);
  }
  bool Advance() {
    const bool may_switch = change.Advance(conditions, roster, now_ms, &out);
    change.CheckInvariants();
    return may_switch;
  }
  void Tick(int64_t ms) {
    now_ms += ms;
    change.EndUnwanted(3000, now_ms);
  }

  Roster roster{1000};
  Plan plan;
  Outbox out{0};
  PlanChange change;
  PlanChange::Conditions conditions;
  int64_t now_ms = 1000;
};

TEST_CASE("a wave goes through all states: copies, pause, switch") {
  Setup run;
  CHECK(run.change.state() == State::kIdle);
  run.Begin(true);
  CHECK(run.change.state() == State::kCopying);
  const SchedulerEffects ordered = run.out.Drain();
  REQUIRE(MessagesIn(ordered).size() == 1);
  CHECK(MessagesIn(ordered)[0].to == "s2");
  const auto& order = std::get<MoveSlots>(*MessagesIn(ordered)[0].body);
  CHECK(order.slots == std::vector<uint32_t>{1});

  CHECK_FALSE(run.Advance());
  run.change.OnMoveReady(kTarget, {order.move + 1});  // of another wave
  CHECK_FALSE(run.Advance());
  CHECK_FALSE(run.change.paused());
  run.change.OnMoveReady(kTarget, {order.move});
  CHECK_FALSE(run.Advance());
  CHECK(run.change.state() == State::kPausing);
  CHECK(run.change.PauseMs(run.now_ms) == 1200);  // two batches, and the plan's way to the workers
  run.change.OnIdle(kWorker);
  CHECK(run.Advance());

  run.change.BeginSwitch(run.plan, run.now_ms + 50);
  CHECK(run.change.state() == State::kSwitching);
  CHECK_FALSE(run.change.has_wave());
  run.roster.Find(kSource)->ready = false;
  CHECK_FALSE(run.change.OnReady({5, 0, 0, 700, 9000, 800}, run.plan, run.roster, &run.out));
  run.roster.Find(kSource)->ready = true;
  const auto report = run.change.OnReady({5, 0, 0, 300, 4000, 200}, run.plan, run.roster, &run.out);
  REQUIRE(report);
  CHECK(report->slots == 1);
  CHECK(report->bytes == 1000);
  CHECK(report->slot_bytes == 1000);
  CHECK(report->stall_us == 9000);
  CHECK(report->paused_ms == 50);
  CHECK(report->unpaused == 0);
  CHECK(run.change.state() == State::kIdle);
  CHECK(Has(NoticesIn(run.out.Drain()), event::kSlotMapTaken,
            {{"slots_moved", 1}, {"paused_ms", 50}}));
}

TEST_CASE("a small wave is not copied before") {
  Setup run;
  run.conditions.batch_ms = 0;  // nobody has trained
  run.Begin(false);
  CHECK(MessagesIn(run.out.Drain()).empty());
  CHECK(run.Advance());
}

TEST_CASE("a change waits for the end of checkpoints and steps before it pauses anybody") {
  Setup run;
  run.conditions.quiet = false;
  CHECK_FALSE(run.Advance());
  CHECK(run.change.state() == State::kPausing);
  CHECK(run.change.wanted_at(run.now_ms));
  CHECK_FALSE(run.change.paused());
  run.conditions.quiet = true;
  run.conditions.in_steps = true;
  CHECK(run.Advance());
}

TEST_CASE("a pause ends when it is not wanted any more") {
  Setup run;
  CHECK_FALSE(run.Advance());
  REQUIRE(run.change.paused());
  run.Tick(100);
  CHECK(run.change.paused());
  CHECK_FALSE(run.Advance());
  run.Tick(50);
  CHECK(run.change.paused());
  run.Tick(50);  // nobody has asked since
  CHECK_FALSE(run.change.paused());
  CHECK(run.change.state() == State::kIdle);
}

TEST_CASE("a pause lasts two batches at most, and does not wait for silent workers") {
  Setup run;
  CHECK_FALSE(run.Advance());
  run.now_ms += 200;
  CHECK(run.Advance());
  Setup silent;
  silent.conditions.batch_ms = 1e6;
  silent.now_ms = 100'000;  // the worker has been silent since 0
  CHECK(silent.Advance());
}

TEST_CASE("the wish for a change fades") {
  Setup run;
  run.conditions.quiet = false;
  CHECK_FALSE(run.Advance());
  run.Tick(3000);
  CHECK(run.change.wanted());
  run.Tick(1);
  CHECK_FALSE(run.change.wanted());
}

TEST_CASE("targets that do not answer are asked again, then the wave is given up") {
  Setup run;
  run.Begin(true);
  run.out.Drain();
  run.now_ms += 2000;
  CHECK_FALSE(run.Advance());
  CHECK(MessagesIn(run.out.Drain()).size() == 1);
  CHECK_FALSE(run.Advance());
  CHECK(MessagesIn(run.out.Drain()).empty());
  run.now_ms += 600'000;
  CHECK_FALSE(run.Advance());
  CHECK(run.change.state() == State::kIdle);
  const SchedulerEffects given_up = run.out.Drain();
  REQUIRE(MessagesIn(given_up).size() == 1);
  CHECK(std::get<MoveSlots>(*MessagesIn(given_up)[0].body).slots.empty());
  CHECK(Has(NoticesIn(given_up), event::kCopiesLate, {{"slots", 1}, {"patience_ms", 600'000}}));
}

TEST_CASE("a source that is lost during the switch is noticed") {
  Setup run;
  run.Begin(false);
  run.change.BeginSwitch(run.plan, run.now_ms);
  CHECK_FALSE(run.change.SourceGone(run.roster));
  run.roster.Remove(kTarget);
  CHECK_FALSE(run.change.SourceGone(run.roster));
  run.roster.Remove(kSource);
  CHECK(run.change.SourceGone(run.roster));
  run.change.BeginSwitch(run.plan, run.now_ms);  // the next plan takes its place
  CHECK_FALSE(run.change.SourceGone(run.roster));
}

}  // namespace
}  // namespace dslide::plan_change_test
