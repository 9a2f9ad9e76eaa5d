// Asking for memory ahead of its use.
#pragma once

#include <cstddef>

namespace dslide {

// Has the cache lines of [memory, memory + bytes) brought near.
inline void Prefetch(const void* memory, size_t bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const char*>(memory) + at);
  }
  // GCC takes a function that only prefetches for one without effect and drops calls of it.
  __asm__ volatile("");
}

// How many rows of `row_bytes` to ask for ahead of the one in work: about 8 KB under way covers the
// latency of memory (measured with 512-byte rows: 16 of them take half the time of 4 to read).
inline size_t PrefetchDistance(size_t row_bytes) {
  constexpr size_t kUnderWay = 8192;
  const size_t rows = kUnderWay / (row_bytes + 1);
  return rows < 2 ? 2 : rows > 32 ? 32 : rows;
}

}  // namespace dslide
