#include "common/text/vocabulary/name_matcher.h"

#include <algorithm>

namespace dslide {
namespace {

// A name of one word of at most so many bytes matches only as it is written.
constexpr size_t kShortName = 3;

uint64_t EdgeOf(uint32_t node, uint32_t word) { return uint64_t{node} << 32 | word; }

// The name without a qualifier in brackets at its end; "": it has none, or nothing else.
std::string_view WithoutQualifier(std::string_view name) {
  if (name.empty()) return {};
  const char close = name.back(), open = close == ')' ? '(' : close == '>' ? '<' : '\0';
  const size_t at = open == '\0' ? std::string_view::npos : name.rfind(open);
  if (at == std::string_view::npos) return {};
  name = name.substr(0, at);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return name;
}

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= 'a' && byte <= 'z');
}

bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordByte(text[at - 1]);
    if (begins && (end == text.size() || !IsWordByte(text[end]))) return true;
  }
  return false;
}

}  // namespace

NameMatcher::NameMatcher(const Vocabulary& vocabulary, const std::string& stem)
    : stem_(stem), owners_(1) {
  Finder words(*this);
  const auto names = vocabulary.names().size();
  for (size_t n = 0; n < names; ++n) {
    const uint32_t label = vocabulary.owners()[n];
    const std::string_view name = vocabulary.names()[n];
    const bool is_preferred = n == 0 || vocabulary.owners()[n - 1] != label;
    AddName(name, {.label = label, .is_preferred = is_preferred}, &words);
    if (const std::string_view rest = WithoutQualifier(name); !rest.empty()) {
      AddName(rest, {.label = label, .is_preferred = is_preferred, .is_whole = false}, &words);
    }
  }
}

void NameMatcher::AddName(std::string_view name, Owner owner, Finder* words) {
  std::vector<std::string> stems;
  words->breaker_.ForEachWord(name, [&](std::string_view word) {
    stems.emplace_back(words->stemmer_ ? words->stemmer_->StemOf(word) : word);
  });
  if (stems.empty()) return;
  if (stems.size() > kMostWords) stems.resize(kMostWords);
  if (stems.size() == 1 && name.size() <= kShortName) owner.spelling = name;
  uint32_t node = 0;
  for (const std::string& stem : stems) {
    const auto word = word_ids_.emplace(stem, static_cast<uint32_t>(word_ids_.size()));
    const uint32_t number = word.first->second;
    first_nodes_.resize(word_ids_.size(), kUnknown);
    uint32_t& next = node == 0 ? first_nodes_[number]
                               : edges_.emplace(EdgeOf(node, number), kUnknown).first->second;
    if (next == kUnknown) {
      next = static_cast<uint32_t>(owners_.size());
      owners_.emplace_back();
    }
    node = next;
  }
  std::vector<Owner>& owners = owners_[node];
  for (Owner& known : owners) {
    if (known.label != owner.label || known.spelling != owner.spelling) continue;
    known.is_preferred |= owner.is_preferred;
    known.is_whole |= owner.is_whole;
    return;
  }
  owners.push_back(std::move(owner));
}

uint32_t NameMatcher::NodeBehind(uint32_t node, uint32_t word) const {
  if (node == 0) return first_nodes_[word];
  const auto edge = edges_.find(EdgeOf(node, word));
  return edge == edges_.end() ? kUnknown : edge->second;
}

NameMatcher::Finder::Finder(const NameMatcher& matcher) : matcher_(matcher), breaker_(false) {
  if (matcher.stem_ != kNoStems) stemmer_.emplace(matcher.stem_);
}

std::span<const NameMatch> NameMatcher::Finder::Find(const Record& record) {
  matches_.clear();
  places_.clear();
  words_ = 0;
  for (size_t f = 0; f < record.fields.size(); ++f) {
    text_.clear();
    breaker_.ForEachWord(record.fields[f],
                         [&](std::string_view word) { text_.push_back(NumberOf(word)); });
    Match(record.fields[f], words_, f == 0 && record.fields.size() > 1);
    words_ += static_cast<uint32_t>(text_.size());
  }
  std::ranges::sort(matches_, {}, &NameMatch::label);
  return matches_;
}

uint32_t NameMatcher::Finder::NumberOf(std::string_view word) {
  constexpr size_t kMostSeen = 200'000;  // texts have few words often
  if (const auto known = seen_.find(word); known != seen_.end()) return known->second;
  const auto id = matcher_.word_ids_.find(stemmer_ ? stemmer_->StemOf(word) : word);
  const uint32_t number = id == matcher_.word_ids_.end() ? kUnknown : id->second;
  if (seen_.size() == kMostSeen) seen_.clear();
  seen_.emplace(word, number);
  return number;
}

// `before`: words of the fields before this one.
void NameMatcher::Finder::Match(const std::string& field, uint32_t before, bool is_title) {
  for (uint32_t begin = 0; begin < text_.size();) {
    uint32_t node = 0, longest = 0, words = 0;
    for (uint32_t at = begin; at < text_.size() && text_[at] != kUnknown; ++at) {
      node = matcher_.NodeBehind(node, text_[at]);
      if (node == kUnknown) break;
      if (matcher_.owners_[node].empty()) continue;
      longest = node;
      words = at + 1 - begin;
    }
    if (words > 0) {
      Add(longest, field,
          {.count = 1, .in_title = is_title, .first = before + begin, .words = words});
    }
    begin += std::max(1u, words);
  }
}

void NameMatcher::Finder::Add(uint32_t node, const std::string& field, NameMatch match) {
  const std::vector<Owner>& owners = matcher_.owners_[node];
  match.candidates = static_cast<uint32_t>(owners.size());
  for (const Owner& owner : owners) {
    if (!owner.spelling.empty() && !HasWord(field, owner.spelling)) continue;
    match.label = owner.label;
    match.is_preferred = owner.is_preferred;
    match.is_whole = owner.is_whole;
    const auto [place, is_new] =
        places_.emplace(owner.label, static_cast<uint32_t>(matches_.size()));
    if (is_new) {
      matches_.push_back(match);
      continue;
    }
    NameMatch& known = matches_[place->second];
    known.count += match.count;
    known.in_title += match.in_title;
    known.words = std::max(known.words, match.words);
    known.candidates = std::min(known.candidates, match.candidates);
    known.is_preferred |= match.is_preferred;
    known.is_whole |= match.is_whole;
  }
}

}  // namespace dslide
