// `dslide train` as a child of another command.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"

namespace dslide {

struct TrainOutcome {
  int exit_code = 0;
  bool stopped = false;      // it was enough
  bool interrupted = false;  // by a signal to this process
  std::string reason;        // if the exit code is not 0: the error line, or how the child ended
};

// How long a run that is enough has to stop, in ms.
inline constexpr int kTrainGraceMs = 10'000;

// Runs `dslide train` with `arguments` and appends its output to the file `log`. Stops it when
// `is_enough` returns true. Passes on the signals of this process, the second of which ends the run
// at once; `on_interrupt` is called at the first. Errors: the process does not start.
Result<TrainOutcome> RunTrain(
    const std::string& name, std::vector<std::string> arguments, const std::string& log,
    const std::function<bool()>& is_enough, StopSignals* signals,
    const std::function<void()>& on_interrupt = [] {});

}  // namespace dslide
