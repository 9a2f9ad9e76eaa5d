// Bytes as hexadecimal digits, for golden values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dslide::testing {

// `bytes`: a string or a vector of bytes.
template <typename Bytes>
std::string Hex(const Bytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const auto element : bytes) {
    const auto byte = static_cast<uint8_t>(element);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

inline std::vector<uint8_t> FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

}  // namespace dslide::testing
