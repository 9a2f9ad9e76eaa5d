// What a tuning chooses from: candidates are configurations that differ from the user's in a few
// keys. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

// Key to value, as in an INI file: the keys in which a configuration differs from the user's.
using KeyValues = std::map<std::string, std::string>;

// A key and the values that it may take. A value of train.learning_rate may be a factor of what it
// is without the search ("0.5x"): of the user's rate, or of the derived one, which follows the
// candidate's hidden units and batch.
struct SearchAxis {
  std::string key;
  std::vector<std::string> values;

  bool operator==(const SearchAxis&) const = default;
};

struct Candidate {
  KeyValues settings;   // empty: the user's configuration
  uint32_t epochs = 1;  // of a whole run
  uint32_t warmup = 0;  // train.warmup_batches of a whole run
  double weight = 1;    // estimated time of an epoch, relative to the user's configuration
};

// "section.key=a,b,c", as --search has it. Errors (kBadInput) name the key or the value: unknown,
// not allowed together with `base`, given twice, or of a key that is not the model's or the
// training's.
Result<SearchAxis> ParseSearch(const std::string& text, const Config& base);
// All of them. Errors (kBadInput): a key that is given twice.
Result<std::vector<SearchAxis>> ParseSearches(const std::vector<std::string>& texts,
                                              const Config& base);

// Learning rate, hidden units, dropout and epochs around `base`, whose epochs and batch are those
// that the data gives if the user leaves them open, here and below. `effective`: what the scheduler
// made of it (ResolveConfig). Centroids have no hidden dropout.
std::vector<SearchAxis> DefaultAxes(const Config& base, const Config& effective);

// Epochs below which a run says nothing about its settings: in the first and the last epoch
// centroids are only formed.
uint32_t LeastEpochs(const Config& effective);

// The user's configuration, then distinct combinations of the axes' values, drawn by the seed, at
// most `count` in all; the first n are the same for every count. Combinations that the
// configuration refuses are left out. REQUIRES axes of ParseSearch() or DefaultAxes().
std::vector<Candidate> DrawCandidates(const Config& base, const Config& effective,
                                      const std::vector<SearchAxis>& axes, uint32_t count,
                                      uint64_t seed);

// The settings of a run of `epochs`. The warm-up has the same share of the batches as in a whole
// run.
KeyValues SettingsOfRun(const Candidate& candidate, const Config& base, uint32_t epochs);

// `base` with other settings. Errors (kBadInput): they are not allowed.
Result<Config> WithSettings(const Config& base, const KeyValues& settings);

}  // namespace dslide
