// Samples that are drawn from lines of tokens: words and their contexts, or the items of a session
// and the next one. They take the memory of the tokens, not that of the samples.
//
//   words     A sample is an occurrence of a word, its feature. Its labels are the words around it
//             in the line, up to b on each side, b drawn uniformly from 1 to `window` (Mikolov et
//             al.: "Distributed Representations of Words and Phrases and their Compositionality",
//             2013, and their word2vec.c). Of a word that makes up a share f of the tokens an
//             occurrence stays with probability sqrt(t / f) + t / f, at most 1, where t is
//             `subsample`; those that do not stay are left out before windows are laid. The weight
//             is the number of labels over window + 1, their mean in long lines, so that all pairs
//             of a word and a label weigh the same.
//   sessions  A sample is an item that has others before it in the line, its label. The features
//             are the last `window` items before it; the one n before the last has the value
//             decay^n, and those of an item that occurs more than once are added.
//
// What is drawn depends on (seed, epoch, position) alone, so a batch is the same whoever makes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

struct TokenRules {
  bool sessions = false;    // else words
  uint32_t window = 5;      // at least 1
  double subsample = 1e-4;  // words; 0: all occurrences stay
  float decay = 1;          // sessions; above 0, at most 1
};

// Immutable; any number of threads may use it.
class TokenSamples {
 public:
  static constexpr uint32_t kLineEnd = 0xffffffffu;  // between the lines in `tokens`

  // Where a sample is made: what the view of the last one points to.
  struct Scratch {
    std::vector<uint32_t> labels, features;
    std::vector<float> values;
  };

  // REQUIRES tokens below `vocabulary`, each line ended by kLineEnd, fewer than 2^32 of both.
  TokenSamples(const TokenRules& rules, uint32_t vocabulary, std::vector<uint32_t> tokens);

  const TokenRules& rules() const { return rules_; }
  const std::vector<uint32_t>& tokens() const { return tokens_; }
  // Occurrences of each token, [vocabulary].
  const std::vector<uint64_t>& counts() const { return counts_; }
  // Samples of an epoch, the same for all. Of words that are left out as many occurrences stay as
  // on average.
  uint64_t size() const { return size_; }

  // The draws of an epoch.
  class Draws {
   public:
    Draws() = default;  // of no epoch
    Draws(uint64_t seed, uint32_t epoch);

   private:
    friend class TokenSamples;
    uint64_t keep_ = 0, window_ = 0, order_ = 0;
  };
  // The positions in `tokens` of an epoch's samples, size() of them in a random order.
  std::vector<uint32_t> Order(const Draws& draws) const;
  // A sample of the epoch. The view is valid until `scratch` is used again.
  SampleView Sample(uint32_t position, const Draws& draws, Scratch* scratch) const;

  // The same without draws, for evaluation: all occurrences, whole windows, weight 1. `tokens` as
  // those of the constructor.
  static bool IsSample(const TokenRules& rules, std::span<const uint32_t> tokens,
                       uint32_t position);
  static SampleView WholeSample(const TokenRules& rules, std::span<const uint32_t> tokens,
                                uint32_t position, Scratch* scratch);

  // The features of a sample to predict: `items` in their order.
  static void FeaturesOf(const TokenRules& rules, const std::vector<uint32_t>& items,
                         Scratch* scratch);

 private:
  bool Stays(uint32_t position, const Draws& draws) const;

  TokenRules rules_;
  std::vector<uint32_t> tokens_;
  std::vector<uint64_t> counts_;
  std::vector<uint64_t> stay_below_;  // words: an occurrence stays if its draw of 2^32 is below
  uint64_t size_ = 0;
};

}  // namespace dslide
