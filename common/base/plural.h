// Counts with their nouns, and lists, for text that users read.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace dslide {

// "1 batch", "2 batches", "0 batches".
inline std::string Plural(uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// "1 server", "2 servers", "0 servers".
inline std::string Plural(uint64_t count, const std::string& thing) {
  return Plural(count, thing, thing + "s");
}

// "a, b, c" for the separator ", ". It does not use fmt::join, which parses the elements' format at
// run time: g++ 12 inlines that code at -O3 and wrongly warns of -Wstringop-overflow.
template <typename Range>
std::string Joined(const Range& elements, std::string_view separator) {
  std::string joined;
  std::string_view before;
  for (const auto& element : elements) {
    fmt::format_to(std::back_inserter(joined), "{}{}", before, element);
    before = separator;
  }
  return joined;
}

}  // namespace dslide
