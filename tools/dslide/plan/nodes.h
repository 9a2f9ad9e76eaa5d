// The machines that a plan is for, as a user writes them: 4x2x8x100 is four machines, each with 2
// cores, 8 GB and a link of 100 Mbit/s in either direction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// Machines beyond this are not planned for.
inline constexpr uint32_t kMostPlannedNodes = 256;
// Servers and workers beyond this, on all machines together.
inline constexpr uint32_t kMostPlannedProcesses = 256;

struct PlannedNode {
  double cores = 1;
  uint64_t memory_bytes = 0;
  double bits_per_second = 0;  // sent, and as many received; 0: the link is never full
  uint32_t servers = 1;        // processes on this machine
  uint32_t workers = 1;
  bool operator==(const PlannedNode&) const = default;
};

// Why there are more processes than are planned for; "": there are not.
std::string WhyTooMany(const std::vector<PlannedNode>& nodes);

// COUNTxCORESxMEMORYxMBIT, the memory in GB, each a number, the last two also with decimals;
// ":SERVERS+WORKERS" behind it says how many processes each node has, by default 1+1. Several
// groups are separated by commas. Errors (kBadInput) name --nodes and what is wrong. At least one
// node has a server and one a worker, there are at most kMostPlannedNodes, and
// kMostPlannedProcesses on them.
Result<std::vector<PlannedNode>> ParseNodes(std::string_view text);

}  // namespace dslide
