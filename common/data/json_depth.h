// How deep a JSON text may be nested. The JSON library reads any depth, but copies and writes a
// value by recursion, which ends the process where the stack ends.
#pragma once

#include <cstddef>
#include <string_view>

namespace dslide {

constexpr size_t kMostJsonDepth = 100;

// Whether lists and objects of the text lie in more than kMostJsonDepth others. Of a text that is
// no JSON it says any of both. To be asked before text of others is parsed.
bool IsNestedTooDeep(std::string_view json);

}  // namespace dslide
