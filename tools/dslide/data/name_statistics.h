// How the texts of a file mention the labels of a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/text/vocabulary/name_matcher.h"
#include "common/text/vocabulary/vocabulary.h"

namespace dslide {

// Sums over samples.
struct NameCounts {
  uint64_t labels = 0;     // label entries
  uint64_t unknown = 0;    // of these, labels that the vocabulary lacks
  uint64_t mentioned = 0;  // of these, labels of which the text has a name
  uint64_t mentions = 0;  // labels of which a text has a name, whether they are the sample's or not

  void Add(const NameCounts& other);
};

// Immutable; any number of threads may use it.
class NameStatistics {
 public:
  // `stem`: as NameMatcher. Errors are those of ReadVocabulary().
  static Result<NameStatistics> Read(const std::string& path, const std::string& language,
                                     const std::string& stem);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<std::string>& notes() const { return notes_; }  // of ReadVocabulary()
  uint64_t named() const;                                           // concepts with a name

  // A thread's way to count.
  class Counter {
   public:
    explicit Counter(const NameStatistics& names) : names_(names), finder_(*names.matcher_) {}
    NameCounts Count(const Record& record);

   private:
    const NameStatistics& names_;
    NameMatcher::Finder finder_;
  };

 private:
  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const NameMatcher> matcher_;  // of vocabulary_
  std::vector<std::string> notes_;
};

}  // namespace dslide
