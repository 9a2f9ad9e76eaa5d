#include "tools/dslide/serve/form_body.h"

#include <algorithm>
#include <cstddef>

#include "common/app/limits.h"

namespace dslide {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace

std::optional<std::map<std::string, std::string>> ParseForm(std::string_view body) {
  std::map<std::string, std::string> fields;
  if (std::ranges::count(body, '&') >= std::ptrdiff_t{kMostFormFields}) return std::nullopt;
  while (!body.empty()) {
    const std::string_view pair = body.substr(0, body.find('&'));
    body.remove_prefix(std::min(body.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    std::optional<std::string> name = Decode(pair.substr(0, equals));
    std::optional<std::string> value = Decode(pair.substr(std::min(pair.size(), equals + 1)));
    if (!name || !value) return std::nullopt;
    fields.emplace(*std::move(name), *std::move(value));
  }
  return fields;
}

}  // namespace dslide
