#include "common/text/records/json_depth.h"

#include <fmt/format.h>

#include <algorithm>

namespace dslide {
namespace {

bool Opens(char c) { return c == '[' || c == '{'; }
bool Closes(char c) { return c == ']' || c == '}'; }

}  // namespace

Status CheckJsonText(std::string_view json) {
  if (IsNestedTooDeep(json)) {
    return BadInput(fmt::format("is nested deeper than {} levels", kMostJsonDepth));
  }
  if (const size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return BadInput(fmt::format("has a NUL byte (byte {} of {}), which JSON does not allow",
                                nul + 1, json.size()));
  }
  return {};
}

bool IsNestedTooDeep(std::string_view json) {
  // Nearly every text has fewer brackets in all.
  if (std::ranges::count_if(json, Opens) <= std::ptrdiff_t{kMostJsonDepth}) return false;
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (Opens(c)) {
      if (++depth > kMostJsonDepth) return true;
    } else if (Closes(c) && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace dslide
