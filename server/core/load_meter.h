// Measures what the slots of a server cost its executors, for the heartbeats.
//
// There is one measurement at a time. Each covers the time since the last one; the first covers the
// time since the slots were loaded. Hash tables change slowly and take long to read, so only some
// measurements read them.
//
// Invariant: nothing is measured before Begin().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/open_jobs.h"

namespace dslide {

class LoadMeter {
 public:
  static constexpr int64_t kTablesMs = 5000;  // from one look at the hash tables to the next

  // `cpu_quota`: CPU seconds a second that the process may use; 0: no limit.
  explicit LoadMeter(double cpu_quota) : cpu_quota_(cpu_quota) {}

  // What the process has used since it began.
  void NoteUsage(double cpu_seconds) { cpu_seconds_ = cpu_seconds; }
  // The executors have loaded their slots: their loads count from now on.
  void Begin(int64_t now_ms);
  // The executors are gone, and so is what was measured of them.
  void Forget() { figures_ = Figures(); }

  // Begins a measurement. REQUIRES Begin(), and that none is under way.
  LoadMeasuring Measure(int64_t now_ms);
  bool measures() const { return figures_.measuring; }
  // The replies to the measurement under way: Measured of each executor.
  void Take(const LoadMeasuring& measuring, const std::vector<JobReply>& replies, int64_t now_ms);

  // The fields of a heartbeat that come from the executors. Each load is returned once, because it
  // covers one interval.
  Heartbeat TakeFigures();
  // The work a batch of each slot that was measured, smoothed over measurements.
  const std::map<SlotId, double>& slot_work() const { return figures_.slot_work; }

  void CheckInvariants() const;

 private:
  struct Figures {
    bool began = false;
    bool measuring = false;
    int64_t since_ms = 0;  // what the next measurement counts from
    double since_cpu_seconds = 0;
    std::map<SlotId, double> slot_work;
    Heartbeat measured;
  };
  void ApplyQuota(LoadReport* load) const;

  double cpu_quota_;
  double cpu_seconds_ = 0;
  int64_t tables_ms_ = 0;  // when the hash tables were read last
  Figures figures_;
};

}  // namespace dslide
