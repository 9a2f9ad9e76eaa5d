#include "scheduler/plan/placement.h"

#include <doctest/doctest.h>

namespace dslide::placement_test {
namespace {

constexpr uint64_t kSlotBytes = 100;

struct Setup {
  const Member& Add(uint64_t server, const std::string& name, uint64_t memory_slots = 0) {
    Join join;
    join.role = Role::kServer;
    join.name = name;
    loads.Add({server}, 1, memory_slots * kSlotBytes);
    return roster.Add(join, {server}, "p", 0);
  }
  std::vector<std::string> Names(const std::vector<SeatedServer>& servers) const {
    std::vector<std::string> names;
    for (const SeatedServer& seated : servers) names.push_back(seated.server->name);
    return names;
  }

  Roster roster{1000};
  SlotLoads loads{std::vector<uint64_t>(4, kSlotBytes)};
  Plan plan;
};

TEST_CASE("the first servers come in the order of their names") {
  Setup run;
  run.Add(1, "b");
  run.Add(2, "c");
  run.Add(3, "a");
  CHECK(run.Names(ChooseFirstServers(run.roster, 2)) == std::vector<std::string>{"b", "c"});
  CHECK(run.Names(ChooseFirstServers(run.roster, 9)) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("a vacant seat goes to the spare that asks for its name, else to the first one") {
  Setup run;
  run.Add(1, "a");
  run.roster.Find({1})->seated = true;
  run.Add(5, "x");
  run.Add(6, "b");
  run.plan.servers = {{"a", "", {1}}, {"b", "", {2}}, {"c", "", {3}}};
  const auto servers = ChooseServers(run.plan, run.roster, 3, false);
  CHECK(run.Names(servers) == std::vector<std::string>{"a", "b", "x"});
  CHECK(servers[2].seat == 2);
  run.roster.Remove({5});
  CHECK(run.Names(ChooseServers(run.plan, run.roster, 3, false)) ==
        std::vector<std::string>{"a", "b"});
}

TEST_CASE("while newcomers rest a spare comes in only where there are too few servers") {
  Setup run;
  run.Add(1, "a");
  run.roster.Find({1})->seated = true;
  run.Add(5, "x");
  run.plan.servers = {{"a", "", {1}}, {"b", "", {2}}};
  CHECK(run.Names(ChooseServers(run.plan, run.roster, 1, true)) == std::vector<std::string>{"a"});
  CHECK(run.Names(ChooseServers(run.plan, run.roster, 2, true)) ==
        std::vector<std::string>{"a", "x"});
}

TEST_CASE("more spares join until there are enough servers") {
  Setup run;
  run.Add(5, "x");
  run.Add(6, "y");
  run.plan.servers = {{"a", "", {1}}};
  const auto servers = ChooseServers(run.plan, run.roster, 2, false);
  REQUIRE(servers.size() == 2);
  CHECK(servers[0].seat == 0);
  CHECK_FALSE(servers[1].seat);
}

TEST_CASE("without a plan slots are shared equally") {
  Setup run;
  run.Add(1, "a");
  run.Add(2, "b");
  const auto servers = ChooseFirstServers(run.roster, 2);
  const Placement placement = Place(servers, run.plan, nullptr, run.loads, 4);
  CHECK(placement.slot_owner == std::vector<uint16_t>{0, 0, 1, 1});
  CHECK(placement.lacking_bytes == 0);
}

TEST_CASE("who wrote a slot gets it back, whatever seat it has") {
  Setup run;
  run.Add(1, "a");
  run.Add(2, "b");
  Manifest checkpoint;
  checkpoint.shards = {{"shard-0", "b", 0, 0, {}}, {"shard-1", "a", 0, 0, {}}};
  checkpoint.slot_shard = {0, 1, 1, 0};
  const auto servers = ChooseFirstServers(run.roster, 2);
  CHECK(Place(servers, run.plan, &checkpoint, run.loads, 4).slot_owner ==
        std::vector<uint16_t>{1, 0, 0, 1});
}

TEST_CASE("slots of a seat that nobody takes are shared by the others") {
  Setup run;
  run.Add(1, "a");
  run.roster.Find({1})->seated = true;
  run.plan.servers = {{"a", "", {1}}, {"b", "", {2}}};
  run.plan.slot_owner = {0, 0, 1, 1};
  const auto servers = ChooseServers(run.plan, run.roster, 1, false);
  CHECK(Place(servers, run.plan, nullptr, run.loads, 4).slot_owner ==
        std::vector<uint16_t>{0, 0, 0, 0});
}

TEST_CASE("memory that is lacking for a slot is reckoned") {
  Setup run;
  run.Add(1, "a", 1);
  run.Add(2, "b", 2);
  const auto servers = ChooseFirstServers(run.roster, 2);
  CHECK(Place(servers, run.plan, nullptr, run.loads, 4).lacking_bytes == kSlotBytes);
}

}  // namespace
}  // namespace dslide::placement_test
