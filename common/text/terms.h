// The terms of a sample's texts, each of which may be a feature: words, pairs of neighbouring
// words, and the words of the title.
//
// A term is known by a 64-bit hash, equal on all machines. Two terms of one vocabulary of n have
// the same hash with probability n^2 / 2^65.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/text/record.h"
#include "common/text/words.h"

namespace dslide {

// Not thread-safe: each thread has its own.
class TermExtractor {
 public:
  explicit TermExtractor(const TextConfig& config);

  // The hashes of the sample's terms, as often as they occur. Valid until the next call.
  std::span<const uint64_t> TermsOf(const Record& record);

  // Of term i of the last call, for people: "word", "two words" or "title:word".
  std::string NameOf(size_t i) const;

 private:
  struct Term {
    uint32_t first_word, words;
    bool title;
  };

  void AddField(const std::string& text, bool title);
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
};

}  // namespace dslide
