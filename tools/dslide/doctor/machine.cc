#include "tools/dslide/doctor/machine.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/timex.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "common/base/cgroup.h"
#include "common/math/kernels.h"

namespace dslide {
namespace {

constexpr uint64_t kLittleMemory = uint64_t{1} << 30;
constexpr uint64_t kFewFiles = 1024;
constexpr double kMuchSteal = 0.05;
constexpr int kLookMs = 200;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct CpuTicks {
  double total = 0;
  double steal = 0;
};

// The line "cpu" of /proc/stat: user nice system idle iowait irq softirq steal.
std::optional<CpuTicks> TicksOf(const std::string& stat) {
  std::istringstream words(stat.substr(0, stat.find('\n')));
  std::string name;
  words >> name;
  CpuTicks ticks;
  double value = 0;
  int field = 0;
  for (; field < 8 && words >> value; ++field) {
    ticks.total += value;
    if (field == 7) ticks.steal = value;
  }
  return name == "cpu" && field == 8 ? std::optional(ticks) : std::nullopt;
}

// "MemAvailable:   123 kB" of /proc/meminfo, in bytes.
uint64_t MemoryLine(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + ":");
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + name.size() + 1, nullptr, 10) * 1024;
}

// "always [madvise] never".
std::string Chosen(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos
             ? ""
             : text.substr(open + 1, close - open - 1);
}

std::string Gib(uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string CoresText(const MachineFacts& facts) {
  if (facts.core_limit > 0 && facts.core_limit < facts.allowed) {
    return fmt::format("{:.2g} of {} by the cgroup's limit", facts.core_limit, facts.processors);
  }
  if (facts.allowed < facts.processors) {
    return fmt::format(
        "{} of {} by the CPU affinity (taskset, a container's cpuset, a batch system)",
        facts.allowed, facts.processors);
  }
  return fmt::format("{}", facts.processors);
}

void JudgeProcessors(const MachineFacts& facts, Findings* findings) {
  const std::string kernels = fmt::format("{} instructions", facts.kernels);
  if (facts.kernels == "scalar") {
    findings->Note(
        "processor", kernels,
        "this processor has no AVX2 (or the virtual machine hides it): training is several "
        "times slower; give the virtual machine the host's processor type");
  } else {
    findings->Fine("processor", kernels);
  }
  if (facts.core_limit > 0 && facts.core_limit < 1) {
    findings->Note("cores", CoresText(facts),
                   "a server or worker wants one core at least: raise the limit");
  } else {
    findings->Fine("cores", CoresText(facts));
  }
  if (facts.steal && *facts.steal > kMuchSteal) {
    findings->Note(
        "steal time", fmt::format("{:.0f} % of CPU time", 100 * *facts.steal),
        "the host of this virtual machine is busy with others: expect that much less speed, "
        "or move it");
  }
  if (facts.load && *facts.load > 1.5 * facts.processors) {
    findings->Note(
        "load", fmt::format("{:.1f} processes want {} processors", *facts.load, facts.processors),
        "other processes use this machine: stop them, or start members with --idle");
  }
}

void JudgeMemory(const MachineFacts& facts, Findings* findings) {
  const bool limited = facts.memory_limit > 0 && facts.memory_limit < facts.memory_bytes;
  const uint64_t usable = limited ? facts.memory_limit : facts.memory_bytes;
  const std::string text =
      limited ? fmt::format("{} by the cgroup's limit, of {}", Gib(usable), Gib(facts.memory_bytes))
              : fmt::format("{}, {} of it available", Gib(usable), Gib(facts.available_bytes));
  if (usable <= kLittleMemory) {
    findings->Note(
        "memory", text,
        limited
            ? "raise the limit, or give the server less by cluster.memory_mb"
            : "enough for a worker; a server says at once if its part of the model does not fit");
  } else if (!limited && facts.available_bytes < usable / 10) {
    findings->Note("memory", text, "other processes hold it: stop them, or set cluster.memory_mb");
  } else {
    findings->Fine("memory", text);
  }
  if (facts.strict_overcommit) {
    findings->Note("overcommit", "vm.overcommit_memory = 2: the kernel refuses memory early",
                   "sysctl vm.overcommit_memory=0");
  }
  if (facts.huge_pages.empty() || facts.huge_pages == "never") {
    findings->Note("huge pages", facts.huge_pages.empty() ? "this kernel has none" : "never",
                   "rows are read up to a fifth slower: echo madvise > "
                   "/sys/kernel/mm/transparent_hugepage/enabled, as root");
  } else {
    findings->Fine("huge pages", facts.huge_pages);
  }
}

}  // namespace

MachineFacts ReadMachine(const std::string& root) {
  MachineFacts facts;
  facts.kernels = BestKernels().name;
  const auto before = TicksOf(TextOf(root + "/proc/stat"));
  poll(nullptr, 0, kLookMs);
  const auto after = TicksOf(TextOf(root + "/proc/stat"));
  if (before && after && after->total > before->total) {
    facts.steal = (after->steal - before->steal) / (after->total - before->total);
  }
  const std::string load = TextOf(root + "/proc/loadavg");
  if (!load.empty()) facts.load = std::strtod(load.c_str(), nullptr);
  const std::string memory = TextOf(root + "/proc/meminfo");
  facts.memory_bytes = MemoryLine(memory, "MemTotal");
  facts.available_bytes = MemoryLine(memory, "MemAvailable");
  const CgroupLimits limits =
      ReadCgroupLimits(TextOf(root + "/proc/self/cgroup"), root + "/sys/fs/cgroup");
  facts.memory_limit = limits.memory_bytes;
  facts.core_limit = limits.cores;
  facts.allowed = AllowedCpus();
  facts.processors = std::max(facts.allowed, std::thread::hardware_concurrency());
  facts.huge_pages = Chosen(TextOf(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.strict_overcommit = TextOf(root + "/proc/sys/vm/overcommit_memory").starts_with("2");
  timex clock = {};
  const int state = adjtimex(&clock);
  if (state >= 0) facts.clock_set = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) facts.open_files = files.rlim_max;
  return facts;
}

void JudgeMachine(const MachineFacts& facts, Findings* findings) {
  JudgeProcessors(facts, findings);
  JudgeMemory(facts, findings);
  if (facts.clock_set && !*facts.clock_set) {
    findings->Note("clock", "is not kept by NTP",
                   "expiry of keys and the days of contributions go by it: install chrony or "
                   "systemd-timesyncd");
  } else if (facts.clock_set) {
    findings->Fine("clock", "is kept by NTP");
  }
  const std::string files = fmt::format("up to {} open at once", facts.open_files);
  if (facts.open_files < kFewFiles) {
    findings->Note(
        "files", files,
        "a scheduler or server needs one for each connection: ulimit -Hn 65536, as root");
  } else {
    findings->Fine("files", files);
  }
}

}  // namespace dslide
