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
// and checkpoint.shard_hook, which are for a shell, quotes that the value does not need are part of
// it.
//
// An override "key=value" of a text has the value as it is. One with a blank before '=',
// "key = value", is read as a line without comments.
#pragma once

#include <string>
#include <string_view>

namespace dslide {

struct WrittenValue {
  std::string text;
  std::string plain = {};      // what it would be without quoting: the line up to '#'
  bool quoted = false;         // else `text` is `plain`
  bool cuts_a_string = false;  // plain, and '#' is between quotes: something is missing
};

enum class Comments { kAllowed, kNone };

// `line`: what follows '='. Without comments '#' is a byte as any other.
WrittenValue ReadValue(std::string_view line, Comments comments = Comments::kAllowed);

// Whether a value is another one when it is written as it is, or no UTF-8.
bool NeedsQuotes(std::string_view value);

// `value` so that ReadValue() gives it back: in quotes if it needs them.
std::string QuotedValue(std::string_view value);

}  // namespace dslide
