// The terms of a sample's texts, each of which may be a feature. They come in blocks:
//
//   words         the words of all fields, and if wanted pairs of neighbouring words
//   title         of the title's words the character n-grams of "<word>", or the words themselves:
//                 compounds and inflected forms share them (Bojanowski et al.: "Enriching Word
//                 Vectors with Subword Information", TACL 2017, section 3.2)
//   title pairs   pairs of neighbouring words of the title
//
// A term is known by a 64-bit hash, equal on all machines. Two terms of one vocabulary of n have
// the same hash with probability n^2 / 2^65.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/text/record.h"
#include "common/text/words.h"

namespace dslide {

enum class TermBlock : uint8_t { kWords, kTitle, kTitlePairs };
constexpr size_t kTermBlocks = 3;
// The length of each block's part of a vector, before the whole has length 1.
constexpr std::array<float, kTermBlocks> kBlockLength = {1.0f, 1.0f, 0.7f};

// Not thread-safe: each thread has its own.
class TermExtractor {
 public:
  explicit TermExtractor(const TextConfig& config);

  // The hashes of the sample's terms, as often as they occur. Valid until the next call.
  std::span<const uint64_t> TermsOf(const Record& record);

  // Of term i of the last call.
  TermBlock BlockOf(size_t i) const { return terms_[i].block; }
  // For people: "word", "two words", "title:<wor" or "title:two words".
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
  void AddCharacters(uint32_t word);
  void AddTerm(uint64_t hash, const Term& term);
  std::string_view Word(size_t i) const;

  TextConfig config_;
  WordBreaker breaker_;
  std::vector<uint64_t> hashes_;  // of the terms
  std::vector<Term> terms_;
  // The words of the record.
  std::string words_;
  std::vector<size_t> word_ends_;
  std::vector<uint64_t> word_hashes_;
  // Scratch of AddCharacters().
  std::string marked_;
  std::vector<uint32_t> characters_;  // where each begins, and the end
};

}  // namespace dslide
