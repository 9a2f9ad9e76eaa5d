// Always-on checks of the programmer's own invariants. Never used on outside input.
#pragma once

namespace dslide {

// Prints "file:line: check failed: condition" and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace dslide

#define DSLIDE_CHECK(condition)                                                              \
  (__builtin_expect(!(condition), 0) ? ::dslide::CheckFailed(#condition, __FILE__, __LINE__) \
                                     : (void)0)
