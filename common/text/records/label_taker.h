// Adds labels to a record while a parser reads it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

#include "common/text/records/record.h"

namespace dslide {

inline std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Calls take() with each part between separators; empty parts are left out.
template <typename Take>
void ForEachPart(std::string_view text, std::string_view separators, const Take& take) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (const std::string_view part = Trimmed(text.substr(0, end)); !part.empty()) take(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Adds each name once.
class LabelTaker {
 public:
  // `separator`: splits a name into labels; empty: a name is one label.
  explicit LabelTaker(Record* record, std::string_view separator = {})
      : record_(record), separator_(separator) {}

  void Take(std::string_view name) {
    if (separator_.empty()) return TakeWhole(name);
    ForEachPart(name, separator_, [this](std::string_view label) { TakeWhole(label); });
  }

  // Adds a name as one label, without splitting it.
  void TakeWhole(std::string_view name) {
    std::string cleaned(name);
    for (char& c : cleaned) {
      if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) continue;
      c = ' ';
      record_->labels_cleaned = true;
    }
    const std::string_view trimmed = Trimmed(cleaned);
    if (!trimmed.empty() && seen_.emplace(trimmed).second) record_->labels.emplace_back(trimmed);
  }

 private:
  Record* record_;
  std::string_view separator_;
  std::unordered_set<std::string> seen_;
};

}  // namespace dslide
