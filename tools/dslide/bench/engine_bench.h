// Drives the executors of one server in this process, with generated data: the engine's speed
// without network, encoding, or files.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "server/model/engine_stats.h"
#include "tools/dslide/bench/roofline.h"

namespace dslide {

constexpr uint32_t kGeneratedBatches = 256;  // used in turn

struct EngineBenchOptions {
  Config config;                     // model, hash and train; the data's sizes are below
  uint32_t features = 0;             // D
  uint32_t labels = 0;               // N
  uint32_t features_per_sample = 0;  // distinct, drawn log-uniformly over ranks (Zipf, exponent 1)
  uint32_t labels_per_sample = 0;    // likewise
  uint32_t threads = 1;              // executors
  uint32_t repeats = 5;              // measurements of roofline and engine, in turn
  double seconds = 2;                // of each measurement of the engine
};

// Medians over the repeats.
struct EngineBenchResult {
  double samples_per_second = 0;
  double bytes_per_sample = 0;       // of parameter rows, read and written by the engine
  double operations_per_sample = 0;  // of the matrix products; an FMA is two
  Roofline roofline{};
  double roofline_share = 0;  // the least time that bytes or operations need / the time taken
  double rows_per_batch = 0;  // output rows
  double input_rows_per_batch = 0;
  std::array<double, kPhases> phase_seconds{};  // of all executors, per 1,000 batches
  double parameter_bytes = 0;                   // weights, biases and optimiser state
  double table_bytes_per_neuron = 0;            // codes, entries, offsets and marks
  // Rebuilding every neuron's codes and all tables:
  double rehash_seconds = 0;             // at once, all executors together
  double background_rehash_seconds = 0;  // executor time until all buckets are up to date
  double longest_rehash_step = 0;        // CPU seconds; the longest delay of a batch
};

struct RankingBenchResult {
  uint32_t samples = 0;
  double exact_seconds = 0;  // best 5 of all neurons for each sample
  double lsh_seconds = 0;    // of the neurons that the hash tables return
};

EngineBenchResult RunEngineBench(const EngineBenchOptions& options);

// Ranks `samples` activations against the output neurons.
RankingBenchResult RunRankingBench(const EngineBenchOptions& options, uint32_t samples);

// Batch `number` of the generated data; the same for the same seed and sizes.
LeaseBatch GenerateBatch(const EngineBenchOptions& options, uint32_t number);

}  // namespace dslide
