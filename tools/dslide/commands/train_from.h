// dslide train --from: a new run that begins with the model of an earlier one.
//
// Its run directory gets a checkpoint of no batches and a configuration, as if a run had written
// its first checkpoint and died. The cluster then goes on from there, as with --resume. A command
// that was killed before can be given again.
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/text/samples.h"
#include "tools/dslide/model/grown_checkpoint.h"

namespace dslide {

// Whether the directory has what a killed process has left there before the checkpoint was whole:
// nothing to resume.
bool IsUnfinishedStart(const std::string& run_directory);

class TrainFrom {
 public:
  struct Task {
    std::string model;          // --from
    std::string run_directory;  // must not exist, be empty, or an unfinished start
    std::string config_file;    // "": none
    Overrides overrides;
  };

  // Reads the configuration of the earlier run, with the task's on top, and the training data.
  // Writes nothing. Errors (kBadInput) name what does not fit.
  static Result<TrainFrom> Read(const Task& task);

  // Of the new run, resolved.
  const Config& config() const { return config_; }
  // One line for people: what the model had, and what is new.
  std::string Description() const;

  // Fills the run directory. After an error nothing is left in it.
  Status Write(const Stopped& stopped);

 private:
  Status ReadConfig();
  Status ReadData();
  Status CheckConfig() const;
  Status CheckMemory() const;
  std::string CheckpointsDirectory() const;
  Status WriteCheckpoint(const std::string& checkpoints, const NewLabels& labels,
                         const Stopped& stopped);

  Task task_;
  EarlierModel from_;
  Config config_;
  TrainingSamples train_;
  std::vector<uint32_t> held_out_;  // numbers of its held-out samples, ascending
  std::string note_;                // for people
};

}  // namespace dslide
