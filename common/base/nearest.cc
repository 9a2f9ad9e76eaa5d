#include "common/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace dslide {
namespace {

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

constexpr std::string_view kJoinScheme = "dslide://";
constexpr size_t kKeyText = 43;  // base64url of a key

bool IsOfKey(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20u || c == 0x7f; }

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // One row of the dynamic programme: row[j] is the distance of a's prefix to b's first j bytes.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

const std::string* Nearest(std::string_view word, std::span<const std::string> known) {
  const std::string* nearest = nullptr;
  size_t limit = word.size() / 3 + 2;  // exclusive
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance >= limit) continue;
    nearest = &candidate;
    limit = distance;
  }
  return nearest;
}

std::string Printable(std::string_view text, size_t longest) {
  if (text.empty()) return "(empty)";
  if (const size_t at = text.find(kJoinScheme); at != text.npos) {
    return (at == 0 ? "" : Printable(text.substr(0, at), longest)) + std::string(kJoinScheme) +
           "...";
  }
  if (text.size() == kKeyText && std::ranges::all_of(text, IsOfKey)) return "(a key)";
  size_t length = text.size();
  if (length > longest) {
    length = longest;
    while (length > 0 && IsContinuationByte(text[length])) --length;
  }
  std::string printable(text.substr(0, length));
  std::replace_if(printable.begin(), printable.end(), IsControl, '?');
  return length < text.size() ? printable + "..." : printable;
}

}  // namespace dslide
