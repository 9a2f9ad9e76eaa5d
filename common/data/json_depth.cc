#include "common/data/json_depth.h"

#include <algorithm>

namespace dslide {
namespace {

bool Opens(char c) { return c == '[' || c == '{'; }
bool Closes(char c) { return c == ']' || c == '}'; }

}  // namespace

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
