// A trial: one run of a tuning, and what came of it. A line of trials.jsonl each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "tools/dslide/tune/halving.h"
#include "tools/dslide/tune/search_space.h"

namespace dslide {

enum class TrialEnd {
  kFinished,
  kFailed,   // the run ended with an error
  kStopped,  // by the end of the budget
};

struct Trial {
  uint32_t number = 0;  // from 1; the directory is trial-N
  KeyValues candidate;  // how its candidate differs from the user's configuration
  KeyValues settings;   // how this run does: its epochs and its warm-up too
  uint32_t epochs = 1;
  TrialEnd end = TrialEnd::kFinished;
  std::string reason;                     // of kFailed
  std::map<std::string, double> figures;  // of kFinished: p_at_1 and so on, as fractions
  double cpu_seconds = 0;                 // of kFinished
  double train_seconds = 0;               // of kFinished
  double seconds = 0;

  bool operator==(const Trial&) const = default;
};

// The measures that a run's summary.json has.
const std::vector<std::string>& MeasureNames();

// REQUIRES one of MeasureNames(). 0 if the trial has not finished.
double MeasureOf(const Trial& trial, const std::string& measure);
TuneOutcome OutcomeOf(const Trial& trial, const std::string& measure);

// Whether `a` is the better trial: finished, by the measure, then by CPU time, then the earlier
// one.
bool IsBetter(const Trial& a, const Trial& b, const std::string& measure);
// nullptr: none has finished.
const Trial* BestOf(const std::vector<Trial>& trials, const std::string& measure);

// trials.jsonl. Errors (kBadInput) name `path` and the line.
std::string TrialLines(const std::vector<Trial>& trials);
Result<std::vector<Trial>> ParseTrials(std::string_view text, const std::string& path);

}  // namespace dslide
