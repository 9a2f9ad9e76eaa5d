// The values of text files with lines "key = value": the configuration and key files.
//
//   value   = plain | quoted
//   plain   = { byte }                    up to '#' or the end of the line, without outer blanks
//   quoted  = '"' { byte | escape } '"'   then blanks, a comment or the end of the line
//   escape  = '\\' | '\"' | '\t' | '\n' | '\r' | '\x' hex hex
//   comment = '#' { byte }
//
// A byte between quotes is any but '"', '\' and the line end. Text that begins with a quote and
// does not have that form is plain: "/opt/copy" "$1" is text with four quotes. In checkpoint.hook
// and checkpoint.shard_hook, which are shell commands, quotes that the value does not need are part
// of the value.
//
// An override "key=value" of a text sets exactly that value. An override with a blank before '=',
// "key = value", is read as a line without comments.
#pragma once

#include <string>
#include <string_view>

namespace dslide {

struct WrittenValue {
  std::string text;
  std::string plain = {};      // the value if quotes had no meaning: the line up to '#'
  bool quoted = false;         // else `text` is `plain`
  bool cuts_a_string = false;  // plain, but its '#' is between quotes: the text is cut
};

enum class Comments { kAllowed, kNone };

// `line`: the text after '='. Without comments '#' is an ordinary byte.
WrittenValue ReadValue(std::string_view line, Comments comments = Comments::kAllowed);

// Whether ReadValue() would change `value` if it were written without quotes, or it is not UTF-8.
bool NeedsQuotes(std::string_view value);

// The text that ReadValue() reads as `value`, in quotes if necessary.
std::string QuotedValue(std::string_view value);

}  // namespace dslide
