// Compares a cluster on loopback, one server and one worker, with the engine in this process on the
// same data: the cost of sockets, messages and the worker.
#pragma once

#include "common/base/error.h"
#include "tools/dslide/bench/engine_bench.h"

namespace dslide {

struct ClusterBenchResult {
  double samples_per_second = 0;         // of the cluster
  double engine_samples_per_second = 0;  // measured in turn with the cluster
  double share = 0;                      // cluster / engine, median of the repeats
  double rows_per_batch = 0;             // output rows
  double engine_rows_per_batch = 0;
  double bytes_sent_per_sample = 0;  // by the worker to the server
  double bytes_received_per_sample = 0;
};

// Writes the data as a training file into a temporary directory, which is removed afterwards.
// `overrides`: settings of the cluster in addition to those in `options`.
Result<ClusterBenchResult> RunClusterBench(const EngineBenchOptions& options,
                                           const Overrides& overrides);

}  // namespace dslide
