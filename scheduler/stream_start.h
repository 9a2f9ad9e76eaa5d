// How a run begins whose training data is a stream (train.open_vocabulary).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/text/preprocessor.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/provisional.h"
#include "scheduler/stream/stream_feeder.h"

namespace dslide {

constexpr char kStreamName[] = "stream";  // in a run directory
// Said to people at the first signal.
constexpr char kStreamEndsLine[] =
    "the stream ends here: training what has come; another signal stops";

struct StreamStart {
  Provisional made;  // the stream's directory, if it is new; first: the feeder has files of it open
  std::unique_ptr<StreamFeeder> feeder;
  std::shared_ptr<const Preprocessor> preprocessor;
  std::string description;  // for people
  std::vector<std::string> notes;
  bool finished = false;  // the run had finished, and the stream has no more lines
  bool ends = false;      // a signal has ended the stream
};

// Resolves inputs->config, checks that its keys and train.data are those of the run, and waits for
// the segment with which the run begins, or that of the servers or of the newest checkpoint:
// inputs->train. The first signal ends the stream after the lines that have come; a second
// one, or one before the first sample, is an error (kTryLater). Other errors name train.data.
// Nothing is left of a run that is new, unless made.Keep() is called. `server_memory_mb`: of each
// of cluster.servers; 0: not known.
Result<StreamStart> StartStream(const std::filesystem::path& root, bool resume,
                                uint32_t server_memory_mb, RunInputs* inputs, StopSignals* signals);

}  // namespace dslide
