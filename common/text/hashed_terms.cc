#include "common/text/hashed_terms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr double kStep = std::numbers::ln2 / 8;
constexpr uint8_t kMostCode = std::numeric_limits<uint8_t>::max();

}  // namespace

uint8_t IdfCode(uint64_t having, uint64_t samples) {
  DSLIDE_CHECK(having > 0 && having <= samples);
  const double steps =
      std::log((1.0 + static_cast<double>(samples)) / (1.0 + static_cast<double>(having))) / kStep;
  return static_cast<uint8_t>(std::min<double>(1 + std::round(steps), kMostCode));
}

float IdfOf(uint8_t code) {
  static const auto idfs = [] {
    std::array<float, size_t{kMostCode} + 1> table{};
    for (size_t c = 1; c < table.size(); ++c) {
      table[c] = static_cast<float>(1 + static_cast<double>(c - 1) * kStep);
    }
    return table;
  }();
  return idfs[code];
}

std::vector<uint8_t> ChooseCodes(const TextConfig& config, const HashedCounts& counts,
                                 uint64_t samples, std::vector<uint8_t> known) {
  std::vector<uint8_t> codes = std::move(known);
  codes.resize(counts.size());
  const double most = double{config.max_share} * static_cast<double>(samples);
  for (size_t id = 0; id < codes.size(); ++id) {
    const uint32_t having = counts[id];
    if (codes[id] != 0 || having < config.min_samples || having > most) continue;
    codes[id] = IdfCode(having, samples);
  }
  return codes;
}

}  // namespace dslide
