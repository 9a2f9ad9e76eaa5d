// A run as a measurement: its task, and its use of bytes, CPU time and memory, by the records in
// its run directory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/config/config.h"

namespace dslide {

// The task of a run, as its scheduler has read it.
struct EstimatedTask {
  Config config;         // resolved
  uint64_t samples = 0;  // 0: unknown
  uint64_t held_out_samples = 0;
};

struct RoleUse {
  uint32_t count = 0;       // of processes
  double cpu_us = 0;        // a sample, of all together
  uint64_t peak_bytes = 0;  // of the largest
};

struct MeasuredRun {
  RoleUse server, worker, scheduler;
  double share = 0;                     // of the run, from its start, that was measured
  double batches = 0;                   // in this share
  std::map<std::string, double> bytes;  // of workers and servers, a sample, by message
  double lease_bytes = 0;               // a sample, from the scheduler
};

// Reads config.ini and the records of a run directory; the run may be in progress. Errors
// (kBadInput) name what is missing.
Result<EstimatedTask> ReadTask(const std::string& run_directory);

// Reads the records of a run that trains `task`. Bytes are the mean of the whole run, if the rest
// of it is as the last half of the measured part. Records before the last start of the scheduler do
// not count. Errors (kBadInput): there are no records, or an earlier version without the use of
// processes has written them.
Result<MeasuredRun> ReadMeasuredRun(const std::string& run_directory, const EstimatedTask& task);

// The first part of the run to estimate, trained by a cluster on this machine.
struct ShortRun {
  std::string config_file;  // the user's, or ""
  Overrides overrides;      // the user's, and others
  uint32_t servers = 1, workers = 1;
};

// Trains in the new directory `run_directory` until `is_enough` returns true, or to the end of the
// run. `config` is the user's: tests, hooks, addresses, the memory limit and the directory of
// checkpoints have no effect. Errors: that of the run; kPreempted: a signal stopped it.
Status TrainShortly(const ShortRun& run, const Config& config, const std::string& run_directory,
                    const std::function<bool()>& is_enough, StopSignals* signals);

// The seconds of training between the first record and the last; 0 without records.
double RecordedSeconds(const std::string& run_directory);

}  // namespace dslide
