#include "common/config/small_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace dslide {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::string_view kMark = "\xef\xbb\xbf";

Error ControlByte(std::string_view text, size_t at, std::string_view origin) {
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  return BadInput(fmt::format("{}: line {} has the control byte 0x{:02x}; write it as plain text",
                              origin, line, static_cast<unsigned char>(text[at])));
}

}  // namespace

bool IsControlByte(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

std::string_view Stripped(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

Result<std::string_view> WithoutMark(std::string_view text, std::string_view origin) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return BadInput(fmt::format("{}: is UTF-16; save it as UTF-8", origin));
  }
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

Result<std::string_view> PlainText(std::string_view text, std::string_view origin) {
  const Result<std::string_view> plain = WithoutMark(text, origin);
  DSLIDE_RETURN_IF_ERROR(plain);
  const auto refused = [](char c) { return IsControlByte(c) && kBlank.find(c) == kBlank.npos; };
  const auto found = std::ranges::find_if(*plain, refused);
  if (found == plain->end()) return plain;
  return ControlByte(*plain, static_cast<size_t>(found - plain->begin()), origin);
}

Result<std::string> FirstLine(std::string_view text, std::string_view origin) {
  const Result<std::string_view> plain = PlainText(text, origin);
  DSLIDE_RETURN_IF_ERROR(plain);
  std::string_view rest = Stripped(*plain);
  const std::string_view line = Stripped(NextLine(&rest));
  const auto found = std::ranges::find_if(line, IsControlByte);
  if (found == line.end()) return std::string(line);
  return ControlByte(*plain, static_cast<size_t>(&*found - plain->data()), origin);
}

std::string_view NextLine(std::string_view* rest) {
  const size_t end = std::min(rest->find('\n'), rest->size());
  std::string_view line = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace dslide
