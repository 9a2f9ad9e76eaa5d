// Numbers of things in lines for people.
#pragma once

#include <cstdint>
#include <string>

namespace dslide {

// "1 server", "2 servers", "0 servers".
inline std::string Plural(uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace dslide
