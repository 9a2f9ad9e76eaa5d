// What a tuning prints and writes. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/config/config.h"
#include "tools/dslide/tune/halving.h"
#include "tools/dslide/tune/search_space.h"
#include "tools/dslide/tune/trial.h"

namespace dslide {

// "P@1" of "p_at_1".
std::string MeasureTitle(const std::string& measure);

// What a tuning is going to do. Lines.
std::string IntroText(const Config& base, uint32_t minutes, const std::string& measure);
// The keys with their values, and how many of the combinations are candidates beside the
// configuration itself, which is one; `epochs` are those of its whole run. Lines.
std::string CandidatesText(const std::vector<SearchAxis>& axes, uint32_t epochs, size_t candidates);

// The head of the table, and a trial's row. Without line ends.
std::string TrialHead(const std::string& measure);
std::string TrialRow(const Trial& trial, const std::string& measure);

// Head and rows, the best first, those that did not finish last. Lines.
std::string TrialTable(std::vector<Trial> trials, const std::string& measure);

// What the plan says, with the speed that it was made by. `epochs`: of all its runs. Lines.
std::string PlanText(const HalvingPlan& plan, const RunTimes& times, uint32_t minutes,
                     double spent_s, uint32_t epochs);

// The best trial beside the longest one of the user's configuration. Lines. `best` is one of
// `trials`.
std::string BestText(const Trial& best, const std::vector<Trial>& trials,
                     const std::string& measure);

// An INI file of every key of `base` with the best trial's settings that is not D-SLIDE's default.
// REQUIRES settings that the configuration allows.
std::string BestIni(const Config& base, const Trial& best, const std::string& measure);

}  // namespace dslide
