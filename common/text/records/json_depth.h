// Checks of JSON from outside that the JSON library does not make. The library reads any depth, but
// copies and writes a value by recursion, which ends the process where the stack ends. It takes a
// NUL byte behind a value for the end of the text, and the rest is lost.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

constexpr size_t kMostJsonDepth = 100;

// Callers check text from outside before they parse it. Errors (kBadInput) leave the text's name
// out: "is nested deeper than 100 levels", "has a NUL byte (byte 12 of 40) ...".
Status CheckJsonText(std::string_view json);

// Whether lists and objects of the text lie in more than kMostJsonDepth others. Of a text that is
// no JSON it says any of both.
bool IsNestedTooDeep(std::string_view json);

}  // namespace dslide
