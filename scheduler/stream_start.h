// How a run begins whose training data is a stream (train.open_vocabulary).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/text/preprocessor.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/stream/stream_feeder.h"

namespace dslide {

constexpr char kStreamName[] = "stream";  // in a run directory

// Removes the stream's directory of a run that is refused after all.
class NewStream {
 public:
  explicit NewStream(std::filesystem::path directory = {}) : directory_(std::move(directory)) {}
  NewStream(NewStream&& other) noexcept : directory_(std::exchange(other.directory_, {})) {}
  NewStream& operator=(NewStream&& other) noexcept {
    std::swap(directory_, other.directory_);
    return *this;
  }
  ~NewStream();
  void Keep() { directory_.clear(); }

 private:
  std::filesystem::path directory_;
};

struct StreamStart {
  NewStream made;  // first: the feeder has its files open
  std::unique_ptr<StreamFeeder> feeder;
  std::shared_ptr<const Preprocessor> preprocessor;
  std::string description;  // for people
  bool finished = false;    // the run was, and no more has come: there is nothing to do
};

// Resolves inputs->config, checks that its keys and train.data are those of the run, and waits for
// the segment with which the run begins, or that the servers or the newest checkpoint have grown
// to: inputs->train. The first signal ends the stream with what has come. Errors name train.data.
// Nothing is left of a run that is new, unless Keep() is called. `server_memory_mb`: of each of
// cluster.servers; 0: not known.
Result<StreamStart> StartStream(const std::filesystem::path& root, bool resume,
                                uint32_t server_memory_mb, RunInputs* inputs, StopSignals* signals);

}  // namespace dslide
