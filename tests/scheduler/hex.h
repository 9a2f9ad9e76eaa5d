// Bytes as hexadecimal digits, for golden values.
#pragma once

#include <cstdint>
#include <string>

namespace dslide {

inline std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}

}  // namespace dslide
