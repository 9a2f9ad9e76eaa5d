#include "common/text/terms.h"

#include <xxhash.h>

#include <algorithm>

#include "common/base/random.h"

namespace dslide {
namespace {

// Terms of two blocks have different hashes, and so have a word and a pair.
constexpr uint64_t kPair = 0x72;
constexpr uint64_t SeedOf(TermBlock block) { return 0x7000 + static_cast<uint64_t>(block); }

// A text that has no other field is a title, if it is as short as one.
constexpr size_t kMostTitleWords = 32;

std::string_view PrefixOf(TermBlock block) {
  switch (block) {
    case TermBlock::kWords:
      return "";
    case TermBlock::kTitle:
    case TermBlock::kTitlePairs:
      return "title:";
    case TermBlock::kCharacters:
      return "chars:";
  }
  return "";
}

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

TermExtractor::TermExtractor(const TextConfig& config)
    : config_(config), breaker_(config.fold_accents) {
  if (config.stem != kNoStems) stemmer_.emplace(config.stem);
}

std::span<const uint64_t> TermExtractor::TermsOf(const Record& record) {
  hashes_.clear();
  terms_.clear();
  words_.Clear();
  stems_.Clear();
  word_hashes_.clear();
  for (size_t f = 0; f < record.fields.size(); ++f) {
    AddField(record.fields[f], f == 0, record.fields.size() > 1);
  }
  return hashes_;
}

void TermExtractor::AddField(const std::string& text, bool may_be_title, bool is_title) {
  const auto first = static_cast<uint32_t>(word_hashes_.size());
  breaker_.ForEachWord(text, [&](std::string_view word) {
    words_.Add(word);
    if (stemmer_) {
      word = stemmer_->StemOf(word);
      stems_.Add(word);
    }
    word_hashes_.push_back(XXH3_64bits(word.data(), word.size()));
  });
  const auto end = static_cast<uint32_t>(word_hashes_.size());
  const bool title = config_.title && may_be_title && (is_title || end - first <= kMostTitleWords);
  for (uint32_t w = first; w < end; ++w) {
    AddTerm(word_hashes_[w], {w, 1, 0, 0, TermBlock::kWords});
    if (config_.chars > 0) AddCharacters(w, config_.chars, TermBlock::kCharacters);
    if (!title) continue;
    if (config_.title_chars > 0) {
      AddCharacters(w, config_.title_chars, TermBlock::kTitle);
    } else {
      AddTerm(SubSeed(SeedOf(TermBlock::kTitle), word_hashes_[w]), {w, 1, 0, 0, TermBlock::kTitle});
    }
  }
  if (config_.ngrams > 1) AddPairs(first, TermBlock::kWords);
  if (title && config_.title_pairs) AddPairs(first, TermBlock::kTitlePairs);
}

void TermExtractor::AddPairs(uint32_t first, TermBlock block) {
  const uint64_t seed = SubSeed(SeedOf(block), kPair);
  for (uint32_t w = first + 1; w < word_hashes_.size(); ++w) {
    AddTerm(SubSeed(SubSeed(seed, word_hashes_[w - 1]), word_hashes_[w]), {w - 1, 2, 0, 0, block});
  }
}

void TermExtractor::AddCharacters(uint32_t word, uint32_t most, TermBlock block) {
  marked_.assign("<").append(words_[word]).append(">");
  characters_.clear();
  for (uint32_t at = 0; at < marked_.size(); ++at) {
    if (BeginsCharacter(marked_[at])) characters_.push_back(at);
  }
  const size_t n = std::min<size_t>(most, characters_.size());
  characters_.push_back(static_cast<uint32_t>(marked_.size()));
  for (size_t c = 0; c + n < characters_.size(); ++c) {
    const uint32_t begin = characters_[c];
    const uint32_t size = characters_[c + n] - begin;
    AddTerm(XXH3_64bits_withSeed(marked_.data() + begin, size, SeedOf(block)),
            {word, 0, begin, size, block});
  }
}

void TermExtractor::AddTerm(uint64_t hash, const Term& term) {
  hashes_.push_back(hash);
  terms_.push_back(term);
}

std::string TermExtractor::NameOf(size_t i) const {
  const Term& term = terms_[i];
  std::string name(PrefixOf(term.block));
  if (term.words == 0) {
    const std::string marked = "<" + std::string(words_[term.word]) + ">";
    return name + marked.substr(term.begin, term.size);
  }
  const Words& words = stemmer_ ? stems_ : words_;
  for (uint32_t w = 0; w < term.words; ++w) {
    name.append(w == 0 ? 0 : 1, ' ').append(words[term.word + w]);
  }
  return name;
}

void TermExtractor::Words::Clear() {
  text.clear();
  ends.clear();
}

void TermExtractor::Words::Add(std::string_view word) {
  text.append(word);
  ends.push_back(text.size());
}

std::string_view TermExtractor::Words::operator[](size_t i) const {
  const size_t begin = i == 0 ? 0 : ends[i - 1];
  return std::string_view(text).substr(begin, ends[i] - begin);
}

}  // namespace dslide
