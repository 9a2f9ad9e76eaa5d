#include "tools/dslide/cluster/process_count.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"

namespace dslide {
namespace {

// A few processes for each CPU do no harm: while one waits for the network another works.
constexpr uint32_t kMostPerCore = 4;
// The memory of a process without rows or samples.
constexpr uint64_t kServerMb = 43;
constexpr uint64_t kWorkerMb = 20;

}  // namespace

Result<std::string> JudgeProcesses(const ProcessCount& count) {
  const uint64_t needed_mb = count.servers * kServerMb + count.workers * kWorkerMb;
  const uint64_t machine_mb = count.memory_bytes >> 20;
  const std::string what =
      fmt::format("{} and {}", Plural(count.servers, "server"), Plural(count.workers, "worker"));
  if (needed_mb > machine_mb) {
    return BadInput(fmt::format(
        "{} take {} MB before they hold a model, and this machine has {} MB; lower --servers "
        "(cluster.servers) and --workers (cluster.workers), or start some on other machines",
        what, needed_mb, machine_mb));
  }
  const uint64_t most = uint64_t{kMostPerCore} * std::max(1u, count.cores);
  if (count.servers <= most && count.workers <= most) return std::string();
  return fmt::format(
      "{} share {} of this machine: as many servers and workers as CPUs use all of it, and every "
      "batch waits for every server (--servers, --workers)",
      what, Plural(count.cores, "CPU"));
}

}  // namespace dslide
