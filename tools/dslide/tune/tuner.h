// A tuning from its first run to the report: the search space, the halving and the trials of a run
// directory, put together.
//
//   RUN/tune.json      what was asked for; --resume goes on with it
//   RUN/base.ini       the user's configuration, complete
//   RUN/trials.jsonl   a line a trial (trial.h), written after each
//   RUN/trial-N/       the best trial's run directory; of the others summary and configuration
//   RUN/best.ini       the configuration of the best trial so far
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/config/config.h"
#include "common/data/file_lock.h"
#include "tools/dslide/tune/halving.h"
#include "tools/dslide/tune/search_space.h"
#include "tools/dslide/tune/trial.h"
#include "tools/dslide/tune/trial_runner.h"

namespace dslide {

constexpr uint32_t kMostCandidates = 243;

struct TuneTask {
  Config base;
  std::vector<std::string> searches;  // as ParseSearches() takes them; empty: DefaultAxes()
  std::string measure = "p_at_1";     // one of MeasureNames()
  uint32_t minutes = 30;
  uint32_t candidates = 81;  // at most
  uint64_t seed = 1;
  uint32_t servers = 1, workers = 1;
};

// tune.json, without the configuration. Errors (kBadInput) name `path`.
std::string TaskText(const TuneTask& task);
Result<TuneTask> ParseTask(const std::string& text, const std::string& path);

// Whether the directory is that of a tuning.
bool HoldsTuning(const std::string& directory);

// One tuning in a run directory, which no other process uses meanwhile. One thread uses an object.
class Tuner {
 public:
  // `say` prints a line, or several.
  Tuner(TuneTask task, std::string directory, std::function<void(const std::string&)> say)
      : task_(std::move(task)), directory_(std::move(directory)), say_(std::move(say)) {}
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  // Begins in a directory that has no tuning, or goes on with the one of `resume`. Errors: a run of
  // the user's own configuration fails (kBadInput if the data or the configuration are at fault,
  // and nothing is left if this began the tuning); kPreempted: a signal has stopped it. What is
  // known is written.
  Status Run(bool resume, StopSignals* signals);

 private:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  Status Prepare(bool resume, StopSignals* signals);
  Status Lock(StopSignals* signals);
  Status ReadTrials();
  Result<Trial> Measure();
  Status Search(const Trial& first);
  Result<size_t> SearchBracket(const std::vector<Candidate>& candidates, const Config& effective,
                               double spent_s, bool is_first, RunTimes* times);
  Result<Trial> Try(const Candidate& candidate, uint32_t epochs);
  Status Record(const Trial& trial);
  Status KeepBest();
  void Report() const;

  const Trial* Known(const KeyValues& settings) const;
  double SpentSeconds() const;
  int64_t DeadlineMs() const;

  TuneTask task_;
  std::string directory_;
  std::function<void(const std::string&)> say_;
  std::optional<FileLock> lock_;         // of this process
  std::optional<FileLock> trials_lock_;  // of this process and of those of a trial
  std::optional<TrialRunner> runner_;
  std::vector<SearchAxis> axes_;
  std::vector<Trial> trials_;
  uint32_t next_number_ = 1;
  double earlier_s_ = 0;    // what the trials of earlier lives took
  int64_t started_ms_ = 0;  // this life
};

}  // namespace dslide
