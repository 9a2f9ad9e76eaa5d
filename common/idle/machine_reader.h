// What the kernel says about this machine: /proc and /sys, read once a second or so.
//
//   /proc/stat           CPU time of all processes, in ticks
//   /proc/pressure/cpu   pressure stall information (PSI): time in which some process waited
//   /proc/loadavg        where the kernel has no PSI
//   /proc/self/statm     resident memory
//   /sys/class/power_supply
//
// Whatever cannot be read is not known, and no error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/idle/policy.h"

namespace dslide {

class MachineReader {
 public:
  // `root` stands before "/proc" and "/sys"; tests have a directory of their own there. It comes
  // from the environment variable DSLIDE_MACHINE_ROOT if that is set.
  static std::string DefaultRoot();
  explicit MachineReader(std::string root = DefaultRoot());

  // All but transferred_today. `own_cpu_s`: CPU seconds used so far by the processes that are not
  // others. What is over a time is so since the last call in which that time had moved on.
  MachineSample Read(double own_cpu_s, int64_t now_us);
  // Whether others_cpu is known from the second call on.
  bool KnowsCpu() const { return cpu_.has_value(); }

 private:
  struct CpuTimes {
    double busy = 0;   // seconds, of all CPUs
    double total = 0;  // without the time that a hypervisor took
    double own = 0;
  };
  struct Stall {
    double seconds = 0;
    int64_t at_us = 0;
  };

  std::optional<double> OthersCpu(double own_cpu_s);
  std::optional<double> Waiting(int64_t now_us);
  std::optional<double> WaitingByLoad() const;
  bool OnBattery() const;
  uint64_t ResidentBytes() const;
  std::string Text(const std::string& path) const;

  std::string root_;
  std::optional<CpuTimes> cpu_;  // at the last call
  std::optional<double> others_cpu_;
  std::optional<Stall> stall_;
  std::optional<double> waiting_;
  uint32_t cpus_ = 1;
};

}  // namespace dslide
