// Finds the names of labels in texts: the labels of a vocabulary that a text mentions.
//
// A name is a sequence of words, or of their stems, so that inflected forms match. The search takes
// the longest name at each place of a text, and continues behind it. A qualifier in brackets at the
// end of a name, as in "Mercury (planet)", may be missing. A name of one short word matches only in
// its own spelling, since "IT" is not "it".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/stem/stemmer.h"
#include "common/text/records/record.h"
#include "common/text/records/words.h"
#include "common/text/vocabulary/vocabulary.h"

namespace dslide {

// How a sample's text mentions a label.
struct NameMatch {
  uint32_t label = 0;
  uint32_t count = 0;         // places
  uint32_t in_title = 0;      // of these, in the first of several fields
  uint32_t first = 0;         // the first place, in words from the beginning of the sample
  uint32_t words = 0;         // of the longest name that matched
  uint32_t candidates = 0;    // the fewest labels that share a name that matched
  bool is_preferred = false;  // a preferred name matched
  bool is_whole = false;      // a name matched in full: with its qualifier in brackets, if any

  bool operator==(const NameMatch&) const = default;
};

// Immutable; any number of threads may use it.
class NameMatcher {
 public:
  // Longer names are cut to so many words.
  static constexpr size_t kMostWords = 16;

  // `stem`: a language of StemLanguages(), or kNoStems. The labels are the vocabulary's concepts.
  NameMatcher(const Vocabulary& vocabulary, const std::string& stem);

  const std::string& stem() const { return stem_; }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  struct WordHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using WordNumbers = std::unordered_map<std::string, uint32_t, WordHash, std::equal_to<>>;

 public:
  // A thread's way to look for names. The matcher must outlive it.
  class Finder {
   public:
    explicit Finder(const NameMatcher& matcher);

    // The matches of a sample by ascending label. Valid until the next call.
    std::span<const NameMatch> Find(const Record& record);
    // The words of the last record.
    uint32_t words() const { return words_; }

   private:
    friend class NameMatcher;

    // The number of a word, kUnknown if no name has its stem.
    uint32_t NumberOf(std::string_view word);
    void Match(const std::string& field, uint32_t before, bool is_title);
    void Add(uint32_t node, const std::string& field, NameMatch match);

    const NameMatcher& matcher_;
    WordBreaker breaker_;
    std::optional<Stemmer> stemmer_;
    WordNumbers seen_;            // of words as they are written
    std::vector<uint32_t> text_;  // words of a field by number
    uint32_t words_ = 0;
    std::vector<NameMatch> matches_;
    std::unordered_map<uint32_t, uint32_t> places_;  // of labels in matches_
  };

 private:
  // A label whose name ends at a node.
  struct Owner {
    uint32_t label = 0;
    bool is_preferred = false;
    bool is_whole = true;
    std::string spelling = {};  // of a short name; empty: any
  };

  uint32_t NodeBehind(uint32_t node, uint32_t word) const;  // kUnknown: none
  void AddName(std::string_view name, Owner owner, Finder* words);

  std::string stem_;
  WordNumbers word_ids_;                          // by stem
  std::vector<uint32_t> first_nodes_;             // [words] behind the root, or kUnknown
  std::unordered_map<uint64_t, uint32_t> edges_;  // (node, word) to the next node
  std::vector<std::vector<Owner>> owners_;        // [nodes]; node 0 is the root
};

}  // namespace dslide
