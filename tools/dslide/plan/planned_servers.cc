#include "tools/dslide/plan/planned_servers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/run/slot_plan.h"
#include "scheduler/balance/model_size.h"

namespace dslide {
namespace {

constexpr double kMemoryShare = 0.8;  // of a machine, that its servers may use (cluster.memory_mb)

}  // namespace

uint32_t ExecutorsOn(const PlannedNode& node, const Config& config) {
  if (config.cluster.executors > 0) return config.cluster.executors;
  return std::max(1u, static_cast<uint32_t>(std::ceil(node.cores)) / std::max(1u, node.servers));
}

uint32_t ServersOf(const std::vector<PlannedNode>& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), 0u,
                         [](uint32_t sum, const PlannedNode& n) { return sum + n.servers; });
}

uint32_t WorkersOf(const std::vector<PlannedNode>& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), 0u,
                         [](uint32_t sum, const PlannedNode& n) { return sum + n.workers; });
}

double AllowedBytes(const PlannedNode& node, const Config& config) {
  if (config.cluster.memory_mb > 0) return config.cluster.memory_mb * kMb;
  return kMemoryShare * static_cast<double>(node.memory_bytes) / std::max(1u, node.servers);
}

std::vector<PlannedServer> PlanServers(const PlanInput& input) {
  const ClusterConfig& cluster = input.config.cluster;
  std::vector<PlannedServer> servers;
  for (uint32_t n = 0; n < input.nodes.size(); ++n) {
    for (uint32_t i = 0; i < input.nodes[n].servers; ++i) {
      servers.push_back({n, ExecutorsOn(input.nodes[n], input.config), {}, 0});
    }
  }
  const Plan plan = EqualPlan(1, cluster.slots, std::vector<PlanServer>(servers.size()));
  const std::vector<uint64_t> bytes = SlotMemoryBytes(input.config);
  const SlotRange neurons = OutputSlots(cluster), rows = InputSlots(cluster);
  for (uint32_t slot = 0; slot < cluster.slots; ++slot) {
    PlannedServer& server = servers[plan.slot_owner[slot]];
    server.slot_bytes += bytes[slot];
    if (neurons.Has({slot})) server.part.neurons += 1.0 / neurons.count;
    if (rows.Has({slot})) server.part.input += 1.0 / rows.count;
  }
  const auto with = [&](double ServerPart::*share) {
    return static_cast<double>(
        std::ranges::count_if(servers, [&](const PlannedServer& s) { return s.part.*share > 0; }));
  };
  const double neuron_servers = with(&ServerPart::neurons),
               input_servers = with(&ServerPart::input);
  for (PlannedServer& server : servers) {
    server.part.neuron_servers = neuron_servers;
    server.part.input_servers = input_servers;
  }
  return servers;
}

}  // namespace dslide
