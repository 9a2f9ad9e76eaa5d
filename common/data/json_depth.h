// What the JSON library does not refuse in a text of others. It reads any depth, but copies and
// writes a value by recursion, which ends the process where the stack ends. And it takes a NUL byte
// behind a value for the end of the text: whatever follows is lost.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

constexpr size_t kMostJsonDepth = 100;

// To be asked before text of others is parsed. Errors (kBadInput) say what is wrong without naming
// the text: "is nested deeper than 100 levels", "has a NUL byte (byte 12 of 40) ...".
Status CheckJsonText(std::string_view json);

// Whether lists and objects of the text lie in more than kMostJsonDepth others. Of a text that is
// no JSON it says any of both.
bool IsNestedTooDeep(std::string_view json);

}  // namespace dslide
