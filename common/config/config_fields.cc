#include "common/config/config_fields.h"

#include <algorithm>

#include "common/base/address.h"
#include "common/stem/stemmer.h"

namespace dslide {

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

bool IsStemLanguage(std::string_view text) {
  return text == kNoStems || std::ranges::find(StemLanguages(), text) != StemLanguages().end();
}

std::string StemLanguageNames() {
  std::vector<std::string> names = {std::string(kNoStems)};
  names.insert(names.end(), StemLanguages().begin(), StemLanguages().end());
  return JoinWords(names);
}

bool IsListenAddress(std::string_view text) {
  return IsPlainText(text) && WhyNotListenable(text).empty();
}

bool IsAdvertisedAddress(std::string_view text) {
  return IsPlainText(text) && WhyNotAdvertisable(text).empty();
}

}  // namespace dslide
