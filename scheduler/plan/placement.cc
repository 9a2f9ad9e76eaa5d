#include "scheduler/plan/placement.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/balance/planner.h"
#include "common/run/slot_plan.h"

namespace dslide {
namespace {

constexpr uint16_t kVacant = 0xffff;
constexpr double kNever = 1e9;  // a threshold that no load reaches

// Takes a spare out of `spares`: the first that asked for the name, else the first.
const Member* TakeSpare(const std::string& name, std::vector<const Member*>* spares) {
  if (spares->empty()) return nullptr;
  auto chosen = std::find_if(spares->begin(), spares->end(),
                             [&](const Member* spare) { return spare->asked_name == name; });
  if (chosen == spares->end()) chosen = spares->begin();
  const Member* spare = *chosen;
  spares->erase(chosen);
  return spare;
}

// [V] The servers that have the slots already, on their disks or by their seats; kVacant: none.
std::vector<uint16_t> PresentOwners(const std::vector<SeatedServer>& servers, const Plan& before,
                                    const Manifest* checkpoint, uint32_t slots) {
  const bool had_plan = before.slot_owner.size() == slots;
  const bool known = checkpoint != nullptr && checkpoint->slot_shard.size() == slots;
  if (!had_plan && !known) {
    return EqualPlan(1, slots, std::vector<PlanServer>(servers.size())).slot_owner;
  }
  std::vector<uint16_t> of_seat(before.servers.size(), kVacant);
  std::map<std::string, uint16_t> by_name;
  for (size_t i = 0; i < servers.size(); ++i) {
    const auto index = static_cast<uint16_t>(i);
    if (servers[i].seat) of_seat[*servers[i].seat] = index;
    by_name[servers[i].server->name] = index;
  }
  std::vector<uint16_t> owners(slots, kVacant);
  for (size_t slot = 0; slot < slots; ++slot) {
    if (had_plan) owners[slot] = of_seat[before.slot_owner[slot]];
    if (!known) continue;
    const auto writer = by_name.find(checkpoint->shards[checkpoint->slot_shard[slot]].server);
    if (writer != by_name.end()) owners[slot] = writer->second;
  }
  return owners;
}

// Makes slots vacant for which their owners have no memory.
void TakeFromFull(const std::vector<BalanceOwner>& limits, const SlotLoads& loads,
                  std::vector<uint16_t>* owners) {
  std::vector<uint64_t> used(limits.size());
  for (uint32_t slot = 0; slot < owners->size(); ++slot) {
    uint16_t& owner = (*owners)[slot];
    if (owner == kVacant) continue;
    used[owner] += loads.SlotBytes(slot);
    if (limits[owner].memory_bytes > 0 && used[owner] > limits[owner].memory_bytes) owner = kVacant;
  }
}

}  // namespace

std::vector<SeatedServer> ChooseServers(const Plan& plan, const Roster& roster, size_t wanted,
                                        bool newcomers_rest) {
  std::vector<const Member*> spares = roster.Spares();
  std::vector<SeatedServer> servers;
  for (size_t seat = 0; seat < plan.servers.size(); ++seat) {
    const Member* server = roster.Find(plan.servers[seat].incarnation);
    if (server == nullptr && !newcomers_rest) {
      server = TakeSpare(plan.servers[seat].name, &spares);
    }
    if (server != nullptr) servers.push_back({server, seat});
  }
  while (servers.size() < wanted && !spares.empty()) {
    servers.push_back({TakeSpare("", &spares), std::nullopt});
  }
  return servers;
}

bool AreEnough(size_t servers, const Plan& plan, size_t wanted) {
  return servers >= std::min(wanted, plan.servers.size());
}

std::vector<SeatedServer> ChooseFirstServers(const Roster& roster, size_t wanted) {
  std::vector<const Member*> spares = roster.Spares();
  if (spares.size() > wanted) spares.resize(wanted);
  std::sort(spares.begin(), spares.end(),
            [](const Member* a, const Member* b) { return a->name < b->name; });
  std::vector<SeatedServer> servers;
  for (const Member* spare : spares) servers.push_back({spare, std::nullopt});
  return servers;
}

Placement Place(const std::vector<SeatedServer>& servers, const Plan& before,
                const Manifest* checkpoint, const SlotLoads& loads, uint32_t slots) {
  std::vector<Incarnation> incarnations;
  for (const SeatedServer& seated : servers) incarnations.push_back(seated.server->incarnation);
  const auto limits = loads.Owners(incarnations, std::vector<bool>(servers.size()));
  Placement placement;
  std::vector<uint16_t>& owners = placement.slot_owner;
  owners = PresentOwners(servers, before, checkpoint, slots);
  TakeFromFull(limits, loads, &owners);
  BalanceOptions options;
  options.threshold = kNever;  // only vacant slots have to be placed
  const BalancePlan plan = PlanBalance(limits, loads.Slots(owners, servers.size()), options);
  for (const SlotMove& move : plan.moves) {
    if (move.from == kNoOwner) owners[move.slot] = static_cast<uint16_t>(move.to);
  }
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (owners[slot] != kVacant) continue;
    owners[slot] = static_cast<uint16_t>(slot % servers.size());
    placement.lacking_bytes += loads.SlotBytes(slot);
  }
  return placement;
}

}  // namespace dslide
