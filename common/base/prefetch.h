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

}  // namespace dslide
