// The needs and the speed of a run on given machines.
//
// Memory of rows and tables and the size of a checkpoint follow from the configuration, by the code
// that the scheduler checks servers with (scheduler/balance/model_size.h). Bytes, CPU time and all
// other memory are those of a measured run, in proportion to servers and workers. The speed lies
// between two bounds of operational analysis (ThroughputOf). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/dslide/estimate/measured_run.h"

namespace dslide {

inline constexpr uint32_t kMaxMachines = 1024;

struct Machines {
  uint32_t servers = 1;
  uint32_t workers = 1;
  uint32_t mbit = 0;  // 0: one machine has all processes; else each has one, with such a link
  uint32_t cores = 1;
  uint64_t memory_bytes = 0;  // of a machine
  uint32_t core_rate = 0;     // samples/s of a core; 0: as that of the measured run
};

// A resource that every batch uses.
struct Station {
  std::string name;
  double seconds = 0;  // that a batch takes of it, divided by how many of them there are
};

struct Throughput {
  double low = 0, high = 0;  // batches/s
  std::string bottleneck;    // the station with the most seconds
};
// The bounds of a closed network of queues in which `in_flight` batches go round: at most one batch
// in the seconds of the busiest station, or in_flight in the time of one that is alone; at least
// in_flight in the time in which each waits for all others at the busiest station. Denning, Buzen:
// "The Operational Analysis of Queueing Network Models", Computing Surveys 10(3), 1978. `adapts`:
// workers take more batches in flight while that makes them faster, so that only the busiest
// station limits them. REQUIRES a station with seconds, in_flight >= 1.
Throughput ThroughputOf(const std::vector<Station>& stations, double alone_seconds,
                        double in_flight, bool adapts);

struct ExactFigures {
  uint64_t parameters = 0;
  uint64_t model_bytes = 0;      // rows, optimiser state and tables of all servers
  uint64_t most_rows_bytes = 0;  // the same of the server with the most
  uint64_t allowed_bytes = 0;    // that a server may use for them
  std::string why_too_small;     // "": they fit
};
ExactFigures ExactFiguresOf(Config config, const Machines& machines);

struct Estimate {
  // Memory of the process of each role that has the most.
  uint64_t server_bytes = 0, worker_bytes = 0, scheduler_bytes = 0;
  double bytes_sent = 0, bytes_received = 0;  // a sample, by workers to and from servers
  double lease_bytes = 0;                     // a sample, from the scheduler
  double server_cpu_us = 0, worker_cpu_us = 0, scheduler_cpu_us = 0;  // a sample
  double core_samples_per_second = 0;    // CPU time of all processes, as if on one core
  double low = 0, likely = 0, high = 0;  // samples/s
  double seconds = 0;                    // of training, all epochs
  double link_busy = 0;                  // the busiest link, of the time
  std::string bottleneck;
};
// REQUIRES that the model fits.
Estimate EstimateRun(const EstimatedTask& task, const Machines& machines, const MeasuredRun& run);

}  // namespace dslide
