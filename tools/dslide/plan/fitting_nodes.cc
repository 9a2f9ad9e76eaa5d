#include "tools/dslide/plan/fitting_nodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/plural.h"
#include "scheduler/balance/model_size.h"
#include "tools/dslide/plan/planned_servers.h"

namespace dslide {
namespace {

std::string Megabytes(double bytes) { return fmt::format("{:.0f} MB", std::ceil(bytes / kMb)); }

// The first `count` nodes; beyond those that are given more of the last.
PlanInput WithNodes(const PlanInput& input, size_t count) {
  PlanInput with = input;
  with.nodes.resize(count, input.nodes.back());
  return with;
}

PlanInput WithMemory(const PlanInput& input, double gigabytes) {
  PlanInput with = input;
  for (PlannedNode& node : with.nodes) {
    node.memory_bytes = static_cast<uint64_t>(gigabytes * 1024 * kMb);
  }
  return with;
}

bool HasBothRoles(const PlanInput& input) {
  return ServersOf(input.nodes) > 0 && WorkersOf(input.nodes) > 0;
}

// Whether the slots have room at the servers, as the scheduler reckons it; else what they may use.
bool SlotsFit(const PlanInput& input) {
  const uint32_t slots = input.config.cluster.slots;
  const uint64_t slot_bytes = (ModelMemoryBytes(input.config) + slots - 1) / slots;
  uint64_t room = 0;
  for (const PlannedNode& node : input.nodes) {
    room += node.servers * static_cast<uint64_t>(AllowedBytes(node, input.config) /
                                                 static_cast<double>(slot_bytes));
  }
  return room >= slots;
}

// What the processes of the fullest node take beyond its memory; 0: they fit.
struct FullNode {
  double needed = 0;
  double has = 0;
};
std::optional<FullNode> OverfullNode(const PlanInput& input) {
  const PlanEstimate estimate = EstimateRun(input);
  for (size_t n = 0; n < input.nodes.size(); ++n) {
    const PlannedNode& node = input.nodes[n];
    const double has = static_cast<double>(node.memory_bytes);
    const double needed = static_cast<double>(node.servers * estimate.server_bytes +
                                              node.workers * estimate.worker_bytes +
                                              (n == 0 ? estimate.scheduler_bytes : 0));
    if (needed > has) return FullNode{needed, has};
  }
  return std::nullopt;
}

bool Fits(const PlanInput& input) {
  return HasBothRoles(input) && SlotsFit(input) && !OverfullNode(input);
}

// "8 such nodes", or "5 more nodes like the last" where they are not all alike.
std::string NodesText(const PlanInput& input, size_t count) {
  const bool alike = std::ranges::all_of(
      input.nodes, [&](const PlannedNode& node) { return node == input.nodes.back(); });
  if (alike) return Plural(count, "such node");
  const size_t more = count - input.nodes.size();
  return fmt::format("{} more {} like the last", more, more == 1 ? "node" : "nodes");
}

// "8 such nodes would do, or 2 with 16 GB each"; what is beyond reason is left out.
std::string Mend(const PlanInput& input) {
  std::vector<std::string> mends;
  for (size_t count = input.nodes.size() + 1; count <= kMostPlannedNodes;
       count = std::max(count + 1, count * 9 / 8)) {
    if (!WhyTooMany(WithNodes(input, count).nodes).empty()) break;
    if (!Fits(WithNodes(input, count))) continue;
    while (count > input.nodes.size() + 1 && Fits(WithNodes(input, count - 1))) --count;
    mends.push_back(fmt::format("{} would do", NodesText(input, count)));
    break;
  }
  PlanInput freed = input;
  const bool set = input.config.cluster.memory_mb > 0;
  freed.config.cluster.memory_mb = 0;
  for (double gigabytes = 1; gigabytes <= 16384; gigabytes *= 2) {
    if (!Fits(WithMemory(freed, gigabytes))) continue;
    double below = gigabytes / 2, enough = gigabytes;
    while (enough - below > std::max(0.5, enough / 64)) {
      const double middle = (below + enough) / 2;
      (Fits(WithMemory(freed, middle)) ? enough : below) = middle;
    }
    mends.push_back(fmt::format("{}{} with {:.0f} GB{}", mends.empty() ? "" : "or ",
                                Plural(input.nodes.size(), "node"), std::ceil(enough),
                                input.nodes.size() > 1 ? " each" : ""));
    break;
  }
  if (mends.empty()) return "use fewer hidden units (model.hidden)";
  return (mends.size() == 2 ? mends[0] + ", " + mends[1] : mends[0]) +
         (set ? " (and cluster.memory_mb = 0)" : "");
}

}  // namespace

std::string WhyItDoesNotFit(const PlanInput& input) {
  if (!SlotsFit(input)) {
    double allowed = 0;
    for (const PlannedNode& node : input.nodes) {
      allowed += node.servers * AllowedBytes(node, input.config);
    }
    const uint32_t servers = ServersOf(input.nodes);
    const auto needed = static_cast<double>(ModelMemoryBytes(input.config));
    const bool tier =
        input.config.cluster.disk_tier != "off" &&
        needed <= static_cast<double>(
                      WithDisk(input.config, static_cast<uint64_t>(allowed), uint64_t{1} << 60));
    return fmt::format(
        "too little memory: the model needs {} for rows and tables, {} may use {}{} "
        "(cluster.memory_mb, by default 80 % of a machine); {}{}",
        Megabytes(needed), Plural(servers, "server"), Megabytes(allowed),
        servers > 1 ? " together" : "", Mend(input),
        tier ? "; with the rest on disks (cluster.disk_tier) it trains at a speed that is not "
               "foretold"
             : "");
  }
  if (const auto full = OverfullNode(input)) {
    return fmt::format("too little memory: the processes of a node need {}, it has {}; {}",
                       Megabytes(full->needed), Megabytes(full->has), Mend(input));
  }
  return "";
}

std::vector<NodesRow> EstimateNodes(const PlanInput& input, double least_gain, uint32_t most) {
  std::vector<NodesRow> rows;
  const auto add = [&](const PlanInput& with) {
    if (!Fits(with)) return;
    const auto count = static_cast<uint32_t>(with.nodes.size());
    const PlanEstimate estimate = EstimateRun(with);
    NodesRow row{count, estimate.samples_per_second, 1, 0, estimate.bottleneck};
    if (!rows.empty()) {
      const NodesRow& first = rows.front();
      row.efficiency = row.samples_per_second / first.samples_per_second * first.nodes / row.nodes;
      row.gain = std::pow(row.samples_per_second / rows.back().samples_per_second,
                          1.0 / (row.nodes - rows.back().nodes)) -
                 1;
    }
    rows.push_back(row);
  };
  const auto given = static_cast<uint32_t>(input.nodes.size());
  for (uint32_t count = 1; count <= std::max(most, given);) {
    // Those given are a row of their own.
    uint32_t next = count < 4 ? count + 1 : count + std::max(1u, count / 4);
    if (count < given && next > given) next = given;
    const PlanInput with = WithNodes(input, count);
    if (!WhyTooMany(with.nodes).empty()) break;
    add(with);
    if (count >= given && rows.size() > 1 && rows.back().gain < least_gain) break;
    count = next;
  }
  return rows;
}

}  // namespace dslide
