// The terms of a sample's texts, each of which may be a feature. They come in blocks:
//
//   words         the words of all fields, and if wanted pairs of neighbouring words
//   characters    if wanted, the character n-grams of all fields' words
//   title         of the title's words the character n-grams of "<word>", or the words themselves:
//                 compounds and inflected forms share them (Bojanowski et al.: "Enriching Word
//                 Vectors with Subword Information", TACL 2017, section 3.2)
//   title pairs   pairs of neighbouring words of the title
//
// If wanted, words and pairs are of stems (common/stem/stemmer.h). Character n-grams never are.
//
// A term is known by a 64-bit hash, equal on all machines. Two terms of one vocabulary of n have
// the same hash with probability n^2 / 2^65.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/stem/stemmer.h"
#include "common/text/records/record.h"
#include "common/text/records/words.h"

namespace dslide {

enum class TermBlock : uint8_t { kWords, kTitle, kTitlePairs, kCharacters };
constexpr size_t kTermBlocks = 4;
// The length of each block's part of a vector, before the whole has length 1.
constexpr std::array<float, kTermBlocks> kBlockLength = {1.0f, 1.0f, 0.7f, 0.7f};

// Not thread-safe: each thread has its own.
class TermExtractor {
 public:
  explicit TermExtractor(const TextConfig& config);

  // The hashes of the sample's terms, as often as they occur. Valid until the next call.
  std::span<const uint64_t> TermsOf(const Record& record);

  // Those of the last call.
  std::span<const uint64_t> hashes() const { return hashes_; }
  // Of term i of the last call.
  TermBlock BlockOf(size_t i) const { return terms_[i].block; }
  // For people: "word", "two words", "title:<wor", "title:two words" or "chars:<wor".
  std::string NameOf(size_t i) const;

 private:
  // Words [word, word + words), or the characters [begin, begin + size) of "<word>".
  struct Term {
    uint32_t word, words;
    uint32_t begin, size;
    TermBlock block;
  };

  void AddField(const std::string& text, bool may_be_title, bool is_title);
  void AddPairs(uint32_t first, TermBlock block);
  void AddCharacters(uint32_t word, uint32_t most, TermBlock block);
  void AddTerm(uint64_t hash, const Term& term);

  TextConfig config_;
  WordBreaker breaker_;
  std::optional<Stemmer> stemmer_;
  std::vector<uint64_t> hashes_;  // of the terms
  std::vector<Term> terms_;
  // Strings one after another.
  struct Words {
    void Clear();
    void Add(std::string_view word);
    std::string_view operator[](size_t i) const;

    std::string text;
    std::vector<size_t> ends;
  };
  // The record's words.
  Words words_;
  Words stems_;                        // none: they are the words
  std::vector<uint64_t> word_hashes_;  // of stems
  // Scratch of AddCharacters().
  std::string marked_;
  std::vector<uint32_t> characters_;  // where each begins, and the end
};

}  // namespace dslide
