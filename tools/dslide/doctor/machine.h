// This machine, as training needs it: processors, memory, clock, limits. Reading and judging are
// apart, so that what is judged can be any machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/dslide/doctor/finding.h"

namespace dslide {

struct MachineFacts {
  std::string kernels;            // the instructions that are used: "scalar", "avx2", "avx512"
  uint32_t processors = 1;        // of the machine
  uint32_t allowed = 1;           // CPUs that this process may run on
  double core_limit = 0;          // of the cgroup; 0: none
  std::optional<double> steal;    // share of CPU time that a hypervisor took lately, 0 to 1
  std::optional<double> load;     // processes that want a CPU, averaged over a minute
  uint64_t memory_bytes = 0;      // of the machine
  uint64_t available_bytes = 0;   // free, or freed when it is needed
  uint64_t memory_limit = 0;      // of the cgroup; 0: none
  std::string huge_pages;         // "always", "madvise", "never", "" if the kernel has none
  std::optional<bool> clock_set;  // by NTP or the like; unknown in some containers
  uint64_t open_files = 0;        // hard limit of this process
  bool strict_overcommit = false;
};

// From `root` + /proc and /sys, and from this process. Waits for a fifth of a second.
MachineFacts ReadMachine(const std::string& root);

void JudgeMachine(const MachineFacts& facts, Findings* findings);

}  // namespace dslide
