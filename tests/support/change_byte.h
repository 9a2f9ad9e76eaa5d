// Changes a byte of a file where it lies, which takes much less time than writing the file anew.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace dslide::testing {

// The byte becomes the exclusive or with `mask`: a second call changes it back.
inline void ChangeByte(const std::string& path, uint64_t at, int mask) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  REQUIRE(byte != EOF);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ mask));
  REQUIRE(file.flush());
}

}  // namespace dslide::testing
