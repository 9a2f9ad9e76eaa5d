// Small files that people write or copy: keys, tokens, addresses.
#pragma once

#include <string>

#include "common/base/error.h"

namespace dslide {

// PlainText() and FirstLine() of a file (common/config/small_text.h). Errors (kBadInput) name the
// file; so does a first line that is empty.
Result<std::string> ReadPlainText(const std::string& path);
Result<std::string> ReadFirstLine(const std::string& path);

}  // namespace dslide
