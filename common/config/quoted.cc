#include "common/config/quoted.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "common/config/small_text.h"

namespace dslide {
namespace {

constexpr std::pair<char, char> kEscapes[] = {
    {'\\', '\\'}, {'"', '"'}, {'t', '\t'}, {'n', '\n'}, {'r', '\r'}};

// The byte of the escape that `rest` begins with, behind the backslash; it is removed from `rest`.
std::optional<char> TakeEscape(std::string_view* rest) {
  if (rest->empty()) return std::nullopt;
  const char letter = rest->front();
  rest->remove_prefix(1);
  for (const auto& [name, byte] : kEscapes) {
    if (letter == name) return byte;
  }
  if (letter != 'x' || rest->size() < 2) return std::nullopt;
  uint8_t byte = 0;
  const char* end = rest->data() + 2;
  if (std::from_chars(rest->data(), end, byte, 16).ptr != end) return std::nullopt;
  rest->remove_prefix(2);
  return static_cast<char>(byte);
}

// The text between the quotes, or nullopt where `line` is not quoted.
std::optional<std::string> Unquoted(std::string_view line, Comments comments) {
  if (!line.starts_with('"')) return std::nullopt;
  line.remove_prefix(1);
  std::string text;
  while (!line.empty()) {
    const char c = line.front();
    line.remove_prefix(1);
    if (c == '"') {
      line = Stripped(line);
      const bool comment = comments == Comments::kAllowed && line.starts_with('#');
      return line.empty() || comment ? std::optional(text) : std::nullopt;
    }
    const std::optional<char> byte = c == '\\' ? TakeEscape(&line) : c;
    if (!byte) return std::nullopt;
    text += *byte;
  }
  return std::nullopt;
}

// The length of the UTF-8 character at the beginning of `text`, or 0 if `text` does not begin with
// one (Unicode, table 3-7).
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const int first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const int least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const int most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

// The first byte of `rest`, escaped where it has to be, or all bytes of its first character.
std::string TakeWritten(std::string_view* rest) {
  const char c = rest->front();
  const size_t bytes = CharacterBytes(*rest);
  std::string written(rest->substr(0, std::max(size_t{1}, bytes)));
  rest->remove_prefix(written.size());
  const auto* escape = std::ranges::find(kEscapes, c, &std::pair<char, char>::second);
  if (escape != std::end(kEscapes)) return {'\\', escape->first};
  if (bytes > 0 && !IsControlByte(c)) return written;
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

WrittenValue ReadValue(std::string_view line, Comments comments) {
  line = Stripped(line);
  const size_t comment =
      comments == Comments::kAllowed ? std::min(line.find('#'), line.size()) : line.size();
  WrittenValue value;
  value.plain = Stripped(line.substr(0, comment));
  if (std::optional<std::string> text = Unquoted(line, comments)) {
    value.text = *std::move(text);
    value.quoted = true;
    return value;
  }
  value.text = value.plain;
  value.cuts_a_string = std::ranges::count(value.plain, '"') % 2 == 1 &&
                        line.substr(comment).find('"') != std::string_view::npos;
  return value;
}

bool NeedsQuotes(std::string_view value) {
  const auto breaks = [](char c) { return c == '#' || IsControlByte(c); };
  return value.starts_with('"') || std::ranges::any_of(value, breaks) ||
         Stripped(value).size() != value.size() || !IsUtf8(value);
}

std::string QuotedValue(std::string_view value) {
  if (!NeedsQuotes(value)) return std::string(value);
  std::string text = "\"";
  while (!value.empty()) text += TakeWritten(&value);
  return text + '"';
}

}  // namespace dslide
