// A whole cluster on loopback, one server and one worker, beside the engine in this process on the
// same data: what sockets, messages and the worker cost.
#pragma once

#include "common/base/error.h"
#include "tools/dslide/bench/engine_bench.h"

namespace dslide {

struct ClusterBenchResult {
  double samples_per_second = 0;         // of the cluster
  double engine_samples_per_second = 0;  // in turn with it
  double share = 0;                      // the first over the second, median of the ratios
  double rows_per_batch = 0;             // output rows
  double engine_rows_per_batch = 0;
  double bytes_sent_per_sample = 0;  // by the worker to the server
  double bytes_received_per_sample = 0;
};

// Writes the data as a training file into a temporary directory, which is gone afterwards.
// `overrides` are settings for the cluster beside those in `options`.
Result<ClusterBenchResult> RunClusterBench(const EngineBenchOptions& options,
                                           const Overrides& overrides);

}  // namespace dslide
