#include "tools/dslide/cluster/train_child.h"

#include <poll.h>
#include <signal.h>

#include <fstream>

#include "common/log/log.h"
#include "tools/dslide/cluster/child_process.h"

namespace dslide {
namespace {

constexpr int kPollMs = 50;

// The last line that `dslide train` wrote as its error; else the last line.
std::string LastWords(const std::string& log) {
  std::ifstream file(log);
  std::string line, last, error;
  while (std::getline(file, line)) {
    if (auto words = FailureIn(line, "dslide train")) error = *std::move(words);
    if (!line.empty()) last = line;
  }
  return error.empty() ? last : error;
}

}  // namespace

Result<TrainOutcome> RunTrain(const std::string& name, std::vector<std::string> arguments,
                              const std::string& log, const std::function<bool()>& is_enough,
                              StopSignals* signals, const std::function<void()>& on_interrupt) {
  arguments.insert(arguments.begin(), "train");
  Result<ChildProcess> child =
      ChildProcess::Start(name, ExecutableDirectory() + "/dslide", arguments, log, false);
  DSLIDE_RETURN_IF_ERROR(child);
  TrainOutcome outcome;
  while (!child->Poll()) {
    pollfd ready{signals->fd(), POLLIN, 0};
    (void)poll(&ready, 1, kPollMs);
    if (signals->Take()) {
      if (!outcome.interrupted) on_interrupt();
      outcome.interrupted = true;
      child->Signal(SIGTERM);  // the second one ends it at once
    }
    if (outcome.interrupted || !is_enough()) continue;
    StopAll({&*child}, kTrainGraceMs);
    outcome.stopped = true;
    break;
  }
  outcome.exit_code = child->exit_code();
  if (outcome.exit_code != 0) {
    outcome.reason = LastWords(log);
    if (outcome.reason.empty()) outcome.reason = child->Ending();
  }
  return outcome;
}

}  // namespace dslide
