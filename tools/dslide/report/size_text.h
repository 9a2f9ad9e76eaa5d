// Sizes as people read them.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace dslide {

// "1.4 MB", "220 MB", "14.2 GB"; an MB is 2^20 bytes.
inline std::string SizeText(uint64_t bytes) {
  const double mb = static_cast<double>(bytes) / (1024.0 * 1024.0);
  if (mb >= 10240) return fmt::format("{:.1f} GB", mb / 1024);
  return mb < 10 ? fmt::format("{:.1f} MB", mb) : fmt::format("{:.0f} MB", mb);
}

}  // namespace dslide
