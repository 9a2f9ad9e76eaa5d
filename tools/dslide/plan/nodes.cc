#include "tools/dslide/plan/nodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/config/config_fields.h"

namespace dslide {
namespace {

constexpr uint32_t kMostOnNode = 64;
constexpr double kGigabyte = 1024.0 * 1024.0 * 1024.0;
constexpr const char* kForm =
    "expected COUNTxCORESxGIGABYTESxMBIT, such as 4x2x8x100, and :SERVERS+WORKERS behind it where "
    "a node has not one of each";

Error Wrong(std::string_view group, const std::string& why) {
  return BadInput(fmt::format("--nodes {}: {}", Printable(group), why));
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Adds the nodes of one group.
Status AddGroup(std::string_view group, std::vector<PlannedNode>* nodes) {
  const std::vector<std::string_view> halves = Split(group, ':');
  const std::vector<std::string_view> words = Split(halves[0], 'x');
  PlannedNode node;
  if (halves.size() > 2) return Wrong(group, kForm);
  if (halves.size() == 2) {
    const std::vector<std::string_view> roles = Split(halves[1], '+');
    if (roles.size() != 2) return Wrong(group, kForm);
    const auto servers = ParseNumber<uint32_t>(roles[0]), workers = ParseNumber<uint32_t>(roles[1]);
    if (!servers || !workers) return Wrong(group, kForm);
    if (*servers > kMostOnNode || *workers > kMostOnNode || *servers + *workers == 0) {
      return Wrong(group, fmt::format("a node has up to {} servers and as many workers, and one of "
                                      "them at least",
                                      kMostOnNode));
    }
    node.servers = *servers;
    node.workers = *workers;
  }
  if (words.size() != 4) return Wrong(group, kForm);
  const auto count = ParseNumber<uint32_t>(words[0]);
  const auto cores = ParseNumber<float>(words[1]), gigabytes = ParseNumber<float>(words[2]),
             megabits = ParseNumber<float>(words[3]);
  if (!count || !cores || !gigabytes || !megabits) return Wrong(group, kForm);
  if (*count < 1 || *count > kMostPlannedNodes) {
    return Wrong(group, fmt::format("there may be 1 to {} nodes", kMostPlannedNodes));
  }
  if (!(*cores >= 0.05f && *cores <= 1024)) return Wrong(group, "a node has 0.05 to 1024 cores");
  if (!(*gigabytes >= 0.1f && *gigabytes <= 65536)) {
    return Wrong(group, "a node has 0.1 to 65536 GB of memory");
  }
  if (!(*megabits >= 0.1f && *megabits <= 1e6f)) {
    return Wrong(group, "a link has 0.1 to 1000000 Mbit/s");
  }
  node.cores = *cores;
  node.memory_bytes = static_cast<uint64_t>(*gigabytes * kGigabyte);
  node.bits_per_second = *megabits * 1e6;
  nodes->insert(nodes->end(), *count, node);
  return {};
}

}  // namespace

std::string WhyTooMany(const std::vector<PlannedNode>& nodes) {
  uint64_t servers = 0, workers = 0;
  for (const PlannedNode& node : nodes) {
    servers += node.servers;
    workers += node.workers;
  }
  if (servers + workers <= kMostPlannedProcesses) return "";
  return fmt::format("{} and {} are more than the {} processes that a plan can have",
                     Plural(servers, "server"), Plural(workers, "worker"), kMostPlannedProcesses);
}

Result<std::vector<PlannedNode>> ParseNodes(std::string_view text) {
  std::vector<PlannedNode> nodes;
  for (const std::string_view group : Split(text, ',')) {
    DSLIDE_RETURN_IF_ERROR(AddGroup(group, &nodes));
  }
  if (nodes.size() > kMostPlannedNodes) {
    return Wrong(text, fmt::format("{} nodes are more than {}", nodes.size(), kMostPlannedNodes));
  }
  const auto has_servers = [](const PlannedNode& node) { return node.servers > 0; };
  const auto has_workers = [](const PlannedNode& node) { return node.workers > 0; };
  if (!std::ranges::any_of(nodes, has_servers)) {
    return Wrong(text, "no node has a server; workers alone cannot train");
  }
  if (!std::ranges::any_of(nodes, has_workers)) {
    return Wrong(text, "no node has a worker; servers alone cannot train");
  }
  if (const std::string why = WhyTooMany(nodes); !why.empty()) return Wrong(text, why);
  return nodes;
}

}  // namespace dslide
