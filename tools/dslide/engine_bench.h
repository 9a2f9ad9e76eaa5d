// Drives the executors of one server in this process, with generated data: the engine's speed
// without network, encoding, or files.
#pragma once

#include <array>
#include <cstdint>

#include "common/config/config.h"
#include "server/engine_stats.h"
#include "tools/dslide/roofline.h"

namespace dslide {

struct EngineBenchOptions {
  Config config;                     // model, hash and train; the data's sizes are below
  uint32_t features = 0;             // D
  uint32_t labels = 0;               // N
  uint32_t features_per_sample = 0;  // distinct, drawn log-uniformly over ranks (Zipf, exponent 1)
  uint32_t labels_per_sample = 0;    // likewise
  uint32_t threads = 1;              // executors
  uint32_t repeats = 5;              // roofline and engine are measured in turn so many times
  double seconds = 2;                // of each measurement of the engine
};

// Medians over the repeats.
struct EngineBenchResult {
  double samples_per_second = 0;
  double bytes_per_sample = 0;       // of parameter rows, read and written, by the engine itself
  double operations_per_sample = 0;  // of the matrix products; an FMA is two
  Roofline roofline{};
  double roofline_share = 0;  // the least time that bytes or operations need / the time taken
  double rows_per_batch = 0;  // output rows
  double input_rows_per_batch = 0;
  std::array<double, kPhases> phase_seconds{};  // of all executors, per 1,000 batches
  double parameter_bytes = 0;                   // weights, biases and optimiser state
};

EngineBenchResult RunEngineBench(const EngineBenchOptions& options);

}  // namespace dslide
