// How many cells a search by the index has to look into, measured on samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/model/model.h"
#include "common/wire/messages.h"

namespace dslide {

constexpr double kWantedIndexRecall = 0.98;  // of the kIndexRecallAt best neurons
constexpr uint32_t kIndexRecallAt = 10;

struct IndexTrial {
  std::shared_ptr<const Model> model;  // with the probes; 0 if no number of them pays
  double rows = 1;                     // share of the rows that a search then reads
  std::string Text() const;            // one line for the user
};

// Finds the fewest probes with the wanted recall on these samples. The index is left out where it
// would read more than half of the rows. REQUIRES a model in memory, not one in a mapped file.
IndexTrial ChooseProbes(std::shared_ptr<const Model> model, const SparseRows& samples);

}  // namespace dslide
