// Measures of `dslide evaluate` as a table and as JSON. MEASURES.md has their definitions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/data/measures/label_counts.h"
#include "common/data/measures/measures.h"

namespace dslide {

// In percent, a column for each k; `bands`: those that the measures are of. 16 lines at most, and
// those that say nothing are left out.
std::string MeasureTable(const Measures& measures, const FrequencyBands& bands);

// A column for each value of --rare (at least one), in percent, a line for each measure at k = 1
// and 5, which the measures have (REQUIRED).
struct RareMeasures {
  float rare = 0;
  Measures measures;
};
std::string RareTable(const std::vector<RareMeasures>& columns);

// As fractions: {"p_at_1": 0.5, ..., "bands": {"head": {"p_at_1": 0.2, ...}, ...}}.
nlohmann::ordered_json MeasureJson(const Measures& measures, const FrequencyBands& bands);

}  // namespace dslide
