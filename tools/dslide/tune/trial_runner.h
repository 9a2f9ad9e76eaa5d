// Trials as `dslide train` processes, one after another, and the directories that they leave.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "tools/dslide/tune/trial.h"

namespace dslide {

class TrialRunner {
 public:
  // `base` is the configuration file of all trials. Directories trial-N lie in `directory`.
  TrialRunner(std::string base, std::string directory, uint32_t servers, uint32_t workers,
              StopSignals* signals, std::function<void(const std::string&)> say)
      : base_(std::move(base)),
        directory_(std::move(directory)),
        servers_(servers),
        workers_(workers),
        signals_(signals),
        say_(std::move(say)) {}

  // Runs `trial`, of which number, settings and epochs are set, and sets the rest. A run that is
  // not over at `deadline_ms` (of the monotonic clock) is stopped. Errors: nothing can be started;
  // kPreempted: a signal stopped the run.
  Status Run(int64_t deadline_ms, Trial* trial);
  // What exit code a failed run had; 0 for the others.
  int last_exit_code() const { return exit_code_; }

  std::string Path(uint32_t number) const;
  // Removes what a trial left, except its summary, its configuration and, if it failed, its logs.
  void Reduce(const Trial& trial) const;

 private:
  void ReadSummary(Trial* trial) const;

  std::string base_;
  std::string directory_;
  uint32_t servers_;
  uint32_t workers_;
  StopSignals* signals_;
  std::function<void(const std::string&)> say_;
  int exit_code_ = 0;
};

}  // namespace dslide
