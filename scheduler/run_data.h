// The data of a run: what it trains on and is tested on, and what its labels are called.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/data/dataset.h"
#include "common/text/samples.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/provisional.h"
#include "scheduler/stream_start.h"

namespace dslide {

struct RunData {
  Provisional kept;                      // standard input (train.data = -), in the run directory
  std::optional<StreamStart> stream;     // train.open_vocabulary
  TrainingSamples training;              // of a stream: without its samples
  std::optional<Dataset> test;           // train.test; of a stream: segments have it
  std::optional<Dataset> dev;            // train.dev
  std::vector<std::string> label_names;  // those of train.label_names; none: it is not set
  std::vector<std::string> notes;        // for people
};

// What can be said of the files before any is read. Errors (kBadInput) name their keys.
Status CheckDataFiles(const TrainConfig& train);

// Reads the files of inputs->config, or waits for the stream's first segment, and fills in what
// `inputs` says of them. `inputs` points to what is returned; if the run was finished and no more
// has come, that is null. A run that goes on keeps its numbers for words and labels. Errors
// name file or key. REQUIRES that the run directory exists if standard input or a stream is read.
// `server_memory_mb`: of each of cluster.servers; 0: not known.
Result<std::unique_ptr<RunData>> LoadRunData(const std::string& run_directory, bool resume,
                                             uint32_t server_memory_mb, RunInputs* inputs,
                                             StopSignals* signals);

}  // namespace dslide
