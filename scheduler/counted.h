// Numbers of things, for people.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace dslide {

// "1 server", "2 servers".
inline std::string Counted(uint64_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace dslide
