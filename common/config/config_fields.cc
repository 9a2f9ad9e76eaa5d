#include "common/config/config_fields.h"

#include <algorithm>
#include <cstdint>

namespace dslide {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";

bool IsPort(std::string_view text) { return text == "*" || ParseNumber<uint16_t>(text); }

}  // namespace

std::string JoinWords(const std::vector<std::string>& words) {
  std::string joined;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) joined += i + 1 == words.size() ? " or " : ", ";
    joined += words[i];
  }
  return joined;
}

bool IsPlainText(std::string_view text) {
  const auto breaks_the_file = [](char c) {
    return c == '#' || c == 0x7f || static_cast<unsigned char>(c) < 0x20u;
  };
  return std::none_of(text.begin(), text.end(), breaks_the_file) && !text.starts_with(' ') &&
         !text.ends_with(' ');
}

bool IsAddress(std::string_view text) {
  if (!IsPlainText(text)) return false;
  if (text.starts_with(kIpc)) return text.size() > kIpc.size();
  if (!text.starts_with(kTcp)) return false;
  text.remove_prefix(kTcp.size());
  const size_t colon = text.rfind(':');  // the last one: an IPv6 host has some of its own
  return colon != std::string_view::npos && colon > 0 && IsPort(text.substr(colon + 1));
}

}  // namespace dslide
