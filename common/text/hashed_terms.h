// Features without a vocabulary (text.hash_bits = b > 0): the id of a term is its hash modulo 2^b
// (Weinberger et al.: "Feature Hashing for Large Scale Multitask Learning", ICML 2009; all signs
// are +). Terms with the same id are one feature.
//
// Training samples are counted by id: n_j of n samples have a term with id j. By the rules of a
// vocabulary (vectorizer.h) ids of too few or too many samples are left out, and the others have an
// idf, which a byte holds:
//
//   idf_j = 1 + ln((1 + n) / (1 + n_j)) ~ 1 + (code_j - 1) ln(2) / 8,   code_j = 0: left out
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "common/config/config.h"

namespace dslide {

inline uint32_t HashedId(uint64_t term, uint32_t hash_bits) {
  return static_cast<uint32_t>(term & ((uint64_t{1} << hash_bits) - 1));
}

// In how many samples each id occurs: 4 bytes an id, however many terms there are.
class HashedCounts {
 public:
  explicit HashedCounts(uint32_t hash_bits) : samples_(size_t{1} << hash_bits) {}

  // Counts one sample, by its distinct ids. Any number of threads may at a time.
  void Add(std::span<const uint32_t> ids) {
    for (const uint32_t id : ids) samples_[id].fetch_add(1, std::memory_order_relaxed);
  }
  size_t size() const { return samples_.size(); }
  uint32_t operator[](size_t id) const { return samples_[id].load(std::memory_order_relaxed); }

 private:
  std::vector<std::atomic<uint32_t>> samples_;
};

// The code of an id that `having` of `samples` samples have. REQUIRES 0 < having <= samples.
uint8_t IdfCode(uint64_t having, uint64_t samples);
// The idf; 0 for code 0.
float IdfOf(uint8_t code);

// The codes of ids [2^hash_bits] by `config`. Those of `known` that are not 0 stay; empty: there
// are none.
std::vector<uint8_t> ChooseCodes(const TextConfig& config, const HashedCounts& counts,
                                 uint64_t samples, std::vector<uint8_t> known = {});

}  // namespace dslide
