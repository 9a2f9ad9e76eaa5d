#include "common/text/terms.h"

#include <xxhash.h>

#include "common/base/random.h"

namespace dslide {
namespace {

// Two kinds of terms with the same words have different hashes.
constexpr uint64_t kTitle = 0x71;
constexpr uint64_t kPair = 0x72;

}  // namespace

TermExtractor::TermExtractor(const TextConfig& config)
    : config_(config), breaker_(config.fold_accents) {}

std::span<const uint64_t> TermExtractor::TermsOf(const Record& record) {
  hashes_.clear();
  terms_.clear();
  words_.clear();
  word_ends_.clear();
  word_hashes_.clear();
  for (size_t f = 0; f < record.fields.size(); ++f) {
    AddField(record.fields[f], config_.title > 0 && f == 0 && record.fields.size() > 1);
  }
  return hashes_;
}

void TermExtractor::AddField(const std::string& text, bool title) {
  const auto first = static_cast<uint32_t>(word_hashes_.size());
  breaker_.ForEachWord(text, [&](std::string_view word) {
    words_.append(word);
    word_ends_.push_back(words_.size());
    word_hashes_.push_back(XXH3_64bits(word.data(), word.size()));
  });
  for (uint32_t w = first; w < word_hashes_.size(); ++w) {
    for (uint32_t i = 0; i < (title ? config_.title : 1); ++i) {
      AddTerm(word_hashes_[w], {w, 1, false});
      if (title) AddTerm(SubSeed(kTitle, word_hashes_[w]), {w, 1, true});
    }
    if (config_.ngrams < 2 || w == first) continue;
    AddTerm(SubSeed(SubSeed(kPair, word_hashes_[w - 1]), word_hashes_[w]), {w - 1, 2, false});
  }
}

void TermExtractor::AddTerm(uint64_t hash, const Term& term) {
  hashes_.push_back(hash);
  terms_.push_back(term);
}

std::string_view TermExtractor::Word(size_t i) const {
  const size_t begin = i == 0 ? 0 : word_ends_[i - 1];
  return std::string_view(words_).substr(begin, word_ends_[i] - begin);
}

std::string TermExtractor::NameOf(size_t i) const {
  const Term& term = terms_[i];
  std::string name = term.title ? "title:" : "";
  for (uint32_t w = 0; w < term.words; ++w) {
    name.append(w == 0 ? 0 : 1, ' ').append(Word(term.first_word + w));
  }
  return name;
}

}  // namespace dslide
