// The text of small files, variables and options: keys, tokens, addresses, configurations. Editors,
// shells and copies put blanks, line ends (also CR LF) and a byte order mark around it.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

// Whether a byte is a control character of ASCII: below the space, or DEL.
bool IsControlByte(char c);

// `text` without blanks, tabs and line ends at its beginning and end.
std::string_view Stripped(std::string_view text);

// `text` without the byte order mark of UTF-8 at its beginning. Error (kBadInput): it is UTF-16.
Result<std::string_view> WithoutMark(std::string_view text, std::string_view origin);

// `text` as WithoutMark() returns it. Error (kBadInput), which begins with `origin` and never shows
// the text: that of WithoutMark(), or a control byte other than tabs and line ends.
Result<std::string_view> PlainText(std::string_view text, std::string_view origin);

// The first line of `text` that is not blank, trimmed, or an empty text where all lines are blank.
// Error (kBadInput): that of PlainText(), or a tab or carriage return within the line.
Result<std::string> FirstLine(std::string_view text, std::string_view origin);

// Removes the first line of `rest` and returns it without its line end.
std::string_view NextLine(std::string_view* rest);

}  // namespace dslide
