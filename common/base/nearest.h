// Spelling suggestions for error messages: edit distance, and the nearest of a few known words.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dslide {

// Levenshtein distance in bytes: insertions, deletions and replacements that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// The known word with the smallest distance from `word`, the first of several; nullptr if none is
// near enough for a useful suggestion (one edit, and one more for every three bytes).
const std::string* Nearest(std::string_view word, std::span<const std::string> known);

// Text from outside made fit for a one-line message: control bytes become '?', text of more than
// `longest` bytes is cut, empty text becomes "(empty)". Of a join string there is the beginning
// alone, and of a key nothing: they may be secret.
std::string Printable(std::string_view text, size_t longest = 100);

}  // namespace dslide
