#include "scheduler/members/join_limits.h"

#include <fmt/core.h>

namespace dslide {

std::string WhyNonsense(const Join& join) {
  if (join.name.size() > kLongestName) {
    return fmt::format("its name has {} bytes, a name has at most {}", join.name.size(),
                       kLongestName);
  }
  if (join.address.size() > kLongestAddress) {
    return fmt::format("its address has {} bytes, an address has at most {}", join.address.size(),
                       kLongestAddress);
  }
  if (join.cores > kMostCores) {
    return fmt::format("it says that it has {} cores, a member has at most {}", join.cores,
                       kMostCores);
  }
  if (join.memory_bytes > kMostMemoryBytes) {
    return fmt::format("it says that it has {} GB of memory, a server has at most {}",
                       join.memory_bytes >> 30, kMostMemoryBytes >> 30);
  }
  if (join.disk_bytes > kMostMemoryBytes) {
    return fmt::format("it says that it has {} GB of disk for rows, a server has at most {}",
                       join.disk_bytes >> 30, kMostMemoryBytes >> 30);
  }
  return "";
}

std::string WhyFull(Role role, const Roster& roster, size_t most_workers) {
  const auto why = [&](size_t most, const char* what) {
    return roster.Count(role) < most
               ? ""
               : fmt::format("the run has {} {}, which is the most; try again later", most, what);
  };
  switch (role) {
    case Role::kServer:
      return why(kMostServers, "servers");
    case Role::kWorker:
      return why(most_workers, "workers (cluster.most_workers)");
    case Role::kObserver:
      return why(kMostObservers, "observers");
  }
  return "";
}

}  // namespace dslide
