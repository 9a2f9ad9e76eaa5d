// Checks of JSON from outside that the JSON library does not make. The library reads any depth, but
// copies and writes a value by recursion, so that a deep value overflows the stack. It treats a NUL
// byte after a value as the end of the text and ignores the rest.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

constexpr size_t kMostJsonDepth = 100;

// Checks text from outside, before it is parsed. Callers put the text's name before the message of
// an error (kBadInput): "is nested deeper than 100 levels", "has a NUL byte (byte 12 of 40) ...".
Status CheckJsonText(std::string_view json);

// Whether lists and objects are nested deeper than kMostJsonDepth levels. The result for a text
// that is not JSON is unspecified.
bool IsNestedTooDeep(std::string_view json);

}  // namespace dslide
