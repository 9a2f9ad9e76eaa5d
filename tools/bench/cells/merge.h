// How the changes that several groups have made to one row become one change.
//
// Pure arithmetic on vectors of [n] floats: a row's weights and, behind them, its bias. Each part
// is one group's change since all groups had the same row.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace dslide::cells {

enum class MergeRule {
  kAverage,  // weighted by touches
  kSum,
  kRoot,    // the sum over the square root of the number of parts
  kAdasum,  // orthogonal parts are added, equal ones averaged (Maleki et al., MLSys 2021)
  kCapped,  // the sum of rows with few touches, of others as much of it as those are of all
};
// "average", "sum", "root", "adasum", "capped".
Result<MergeRule> ParseMergeRule(std::string_view name);

struct RowPart {
  const float* change = nullptr;  // [n]
  float touches = 0;              // updates that it is the sum of; above 0
};

// merged[n]. What one part alone changed is taken as it is, whatever the rule. `few`: the touches
// up to which kCapped adds up; beyond, the sum is multiplied by few / touches, but never by less
// than 1 / parts. REQUIRES at least one part.
void MergeParts(MergeRule rule, float few, size_t n, std::span<const RowPart> parts,
                std::vector<float>* merged);

// Rounds x[n] to 8 bits with one scale, max |x| / 127, to what the receiver reads. An element is
// off by half a scale at most.
void RoundToInt8(size_t n, float* x);

}  // namespace dslide::cells
