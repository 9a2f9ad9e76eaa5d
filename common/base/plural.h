// Counts with their nouns, for text that users read.
#pragma once

#include <cstdint>
#include <string>

namespace dslide {

// "1 batch", "2 batches", "0 batches".
inline std::string Plural(uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// "1 server", "2 servers", "0 servers".
inline std::string Plural(uint64_t count, const std::string& thing) {
  return Plural(count, thing, thing + "s");
}

}  // namespace dslide
