#include "server/migration/slot_migration.h"

#include "tests/server/support/part_fixture.h"

namespace dslide::slot_migration_test {
namespace {

using Outcome = SlotMigration::Outcome;

struct Fixture : PartFixture {
  SlotMigration slots;

  Fixture() { (void)slots.Place(seat); }

  // The scheduler has slots 2 and 3 copied.
  ServerEffects Order() {
    slots.OnMoveSlots({1, {2, 3}, {0, 0}, 0}, seat, 0, &out);
    slots.CheckInvariants(seat);
    return out.Drain();
  }
  // The plan that gives this server these slots is in force.
  ServerEffects SwitchTo(const std::vector<uint32_t>& own) {
    const std::vector<SlotId> had = seat.OwnSlots();
    const Plan before = seat.plan;
    seat.plan.version = 2;
    seat.plan.generation = 1;
    std::fill(seat.plan.slot_owner.begin(), seat.plan.slot_owner.end(), uint16_t{0});
    for (const uint32_t slot : own) seat.plan.slot_owner[slot] = 1;
    slots.BeginSwitch(before, had, seat, {}, 0, &out);
    slots.Advance(seat, 0, &out);
    slots.CheckInvariants(seat);
    return out.Drain();
  }
  static std::vector<SlotJob::Kind> Kinds(const ServerEffects& effects) {
    std::vector<SlotJob::Kind> kinds;
    for (const ServerWork& work : effects.work) kinds.push_back(work.slot_job()->kind);
    return kinds;
  }
  // The other server answers a pull with the whole slot.
  ServerEffects Answer(const Message& pull) {
    const auto& asked = std::get<SlotPull>(pull.body);
    SlotRows rows;
    rows.slot = asked.slot;
    rows.part = asked.part;
    rows.rows = {0};
    rows.ends = {10};
    rows.bytes.resize(10);
    rows.last = true;
    slots.OnAnswer({{{}, kOther, 1, pull.envelope.sequence, 2}, rows}, seat, 0, &out);
    return out.Drain();
  }
};

using Kind = SlotJob::Kind;

TEST_CASE_FIXTURE(Fixture, "slots are shared evenly among the executors") {
  const auto placed = slots.Place(seat);
  CHECK(placed == std::vector<std::vector<SlotId>>{{{4}, {5}}, {{6}, {7}}});
}

TEST_CASE_FIXTURE(Fixture, "an order to copy has room reserved and the first parts asked for") {
  const auto effects = Order();
  CHECK(Kinds(effects) == std::vector<Kind>{Kind::kReserve, Kind::kReserve});
  REQUIRE(effects.to_servers.size() == 2);
  CHECK(effects.to_servers[0].first.address == "a");
  const auto may_ask = [&](const std::string& address) {
    return slots.MayAsk([&](const PlanServer& server) { return server.address == address; });
  };
  CHECK(may_ask("a"));
  CHECK_FALSE(may_ask("b"));
  CHECK(Order().work.empty());  // the same again
  // An order that does not fit the plan is not followed.
  slots.OnMoveSlots({2, {5}, {1}, 0}, seat, 0, &out);
  CHECK(out.Drain().work.empty());
}

TEST_CASE_FIXTURE(Fixture, "a switch attaches what came and has the old owner release it") {
  const auto pulls = SwitchTo({2, 4, 5, 6, 7}).to_servers;
  CHECK(slots.switching());
  CHECK(slots.switching_from() == 1);
  REQUIRE(pulls.size() == 1);
  const auto arrived = Answer(pulls[0].second);
  CHECK(Kinds(arrived) == std::vector<Kind>{Kind::kPut, Kind::kAttach});
  const SlotJob attach = *arrived.work[1].slot_job();
  CHECK(slots.Complete(attach, {Attached{}, Attached{{{2}}}}, seat, 0, &out) == Outcome::kAttached);
  const auto switched = slots.TakeSwitch(seat, 5000, &out);
  CHECK(switched.moved_bytes == 10);
  CHECK(switched.stall_us == 5000);
  CHECK_FALSE(slots.switching());
  slots.Pull(seat, 5, &out);
  const auto releases = out.Drain().to_servers;
  REQUIRE(releases.size() == 1);
  CHECK(std::get<SlotPull>(releases[0].second.body).release);
}

TEST_CASE_FIXTURE(Fixture, "a slot that left is kept until its new owner has it") {
  CHECK(Kinds(SwitchTo({4, 5, 6})).at(0) == Kind::kSwitchPlan);
  CHECK(slots.keeps_slots_for_others());
  slots.OnRelease({{}, kOther, 1, 0, 1}, {7}, seat, &out);  // of an earlier move
  CHECK(slots.keeps_slots_for_others());
  slots.OnRelease({{}, kOther, 1, 0, 2}, {7}, seat, &out);
  CHECK_FALSE(slots.keeps_slots_for_others());
  CHECK(Kinds(out.Drain()) == std::vector<Kind>{Kind::kRelease});
}

TEST_CASE_FIXTURE(Fixture, "a copy that fails is given up, a slot of the plan is lost") {
  const Error error = Failed("no memory");
  SUBCASE("while it is only copied") {
    const SlotJob reserve = *Order().work.at(0).slot_job();
    CHECK(slots.Complete(reserve, {error, Attached{}}, seat, 0, &out) == Outcome::kGoesOn);
    CHECK(Kinds(out.Drain()) == std::vector<Kind>{Kind::kDiscard});
    CHECK(Order().to_servers.size() >= 1);  // the same order begins it again
  }
  SUBCASE("during the switch") {
    const auto effects = SwitchTo({2, 4, 5, 6, 7});
    const SlotJob reserve = *effects.work.at(1).slot_job();
    CHECK(reserve.kind == Kind::kReserve);
    CHECK(slots.Complete(reserve, {error, Attached{}}, seat, 0, &out) == Outcome::kLost);
  }
  SUBCASE("during a switch to a plan that does not make the move") {
    const SlotJob reserve = *Order().work.at(0).slot_job();
    (void)SwitchTo({4, 5, 6, 7});
    CHECK(slots.Complete(reserve, {error, Attached{}}, seat, 0, &out) == Outcome::kGoesOn);
    CHECK(slots.switching());
  }
  SUBCASE("attached by no executor") {
    const auto pulls = SwitchTo({2, 4, 5, 6, 7}).to_servers;
    const SlotJob attach = *Answer(pulls.at(0).second).work.at(1).slot_job();
    CHECK(slots.Complete(attach, {Attached{}, Attached{}}, seat, 0, &out) == Outcome::kLost);
  }
}

}  // namespace
}  // namespace dslide::slot_migration_test
