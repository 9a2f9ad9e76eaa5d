#include "common/base/huge_buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace dslide::huge_buffer_test {
namespace {

// How many of the pages in a range are in memory.
size_t PagesIn(const void* begin, size_t bytes) {
  std::vector<unsigned char> in((bytes + 4095) / 4096);
  REQUIRE(mincore(const_cast<void*>(begin), bytes, in.data()) == 0);
  size_t count = 0;
  for (const unsigned char page : in) count += page & 1u;
  return count;
}

TEST_CASE("huge buffer: growing keeps what is there, and the new part is zero") {
  HugeBuffer<uint32_t> buffer;
  for (const size_t size : {size_t{0}, size_t{3}, size_t{1000}, size_t{1024}, size_t{5000000}}) {
    const size_t before = buffer.size();
    buffer.Grow(size);
    REQUIRE(buffer.size() == size);
    bool kept = true, zero = true;
    for (size_t i = 0; i < before; ++i) kept = kept && buffer[i] == i + 1;
    for (size_t i = before; i < size; ++i) zero = zero && buffer[i] == 0;
    CHECK(kept);
    CHECK(zero);
    for (size_t i = 0; i < size; ++i) buffer[i] = static_cast<uint32_t>(i + 1);
  }
}

TEST_CASE("huge buffer: what is given back is zero and out of memory, the rest is as it was") {
  constexpr size_t kSize = 64 * 1024;  // 64 pages
  for (const auto& [begin, end] : std::vector<std::pair<size_t, size_t>>{
           {0, kSize}, {10, 20}, {1000, 1030}, {1024, 2048}, {500, 60000}, {7, 7}}) {
    HugeBuffer<uint32_t> buffer(kSize);
    for (size_t i = 0; i < kSize; ++i) buffer[i] = 9;
    buffer.GiveBack(begin, end);
    const size_t whole_pages = (end / 1024) - std::min(end / 1024, (begin + 1023) / 1024);
    CHECK(PagesIn(buffer.data(), kSize * sizeof(uint32_t)) == kSize / 1024 - whole_pages);
    bool right = true;
    for (size_t i = 0; i < kSize; ++i) {
      right = right && buffer[i] == (begin <= i && i < end ? 0u : 9u);
    }
    CHECK(right);
  }
}

TEST_CASE("huge buffer: regions that are spread keep what they have, with zeros behind") {
  for (const auto& [before, after, regions] : std::vector<std::array<size_t, 3>>{
           {0, 5, 3}, {3, 3, 4}, {3, 4, 1}, {3, 4, 5}, {2, 7, 5}, {100'000, 125'000, 7}}) {
    HugeBuffer<uint32_t> buffer(before * regions);
    for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<uint32_t>(i + 1);
    buffer.Spread(before, after, regions);
    REQUIRE(buffer.size() == after * regions);
    bool right = true;
    for (size_t i = 0; i < buffer.size(); ++i) {
      const size_t region = i / after, at = i % after;
      right = right && buffer[i] == (at < before ? region * before + at + 1 : 0);
    }
    CHECK(right);
  }
}

}  // namespace
}  // namespace dslide::huge_buffer_test
