#include "common/config/config_fields.h"

#include <algorithm>

#include "common/base/address.h"
#include "common/config/limits.h"
#include "common/config/small_text.h"
#include "common/config/value_scale.h"
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
  return std::ranges::none_of(text, IsControlByte) && !text.starts_with(' ') &&
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

Field HiddenLayers() {
  Field field;
  field.allowed =
      fmt::format("1 to {}, or up to {} as 512,256", kMostHiddenUnits, kMostHiddenLayers);
  field.parse = [](std::string_view text, Config* config) {
    std::vector<uint32_t> widths;
    while (true) {
      const size_t comma = text.find(',');
      std::string_view word = text.substr(0, comma);
      while (word.starts_with(' ')) word.remove_prefix(1);
      while (word.ends_with(' ')) word.remove_suffix(1);
      const std::optional<uint32_t> width = ParseNumber<uint32_t>(word);
      if (!width || *width < 1 || *width > kMostHiddenUnits) return false;
      widths.push_back(*width);
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
    if (widths.size() > kMostHiddenLayers) return false;
    config->model.hidden = widths.front();
    config->model.dense.assign(widths.begin() + 1, widths.end());
    return true;
  };
  field.format = [](const Config& config) { return HiddenText(config.model); };
  return field;
}

Field Normalize() {
  Field field = AutoOr(&Config::train, &TrainConfig::normalize, kLeastDivisor, kMostDivisor);
  field.allowed = "auto, off, or a number above 0";
  field.parse = [number = field.parse](std::string_view text, Config* config) {
    return number(text == "off" ? "1" : text, config);
  };
  field.format = [number = field.format](const Config& config) {
    return config.train.normalize == 1.0f ? "off" : number(config);
  };
  return field;
}

Field AuditShare() {
  Field field = Number(&Config::train, &TrainConfig::audit, -1.0f, 1.0f);
  field.allowed = "-1, or 0 to 1";
  field.parse = [share = field.parse](std::string_view text, Config* config) {
    return (text == "-1" || !text.starts_with('-')) && share(text, config);
  };
  return field;
}

Field Epochs() {
  Field field = Number(&Config::train, &TrainConfig::epochs, 0, kMostEpochs);
  field.parse = [number = field.parse](std::string_view text, Config* config) {
    if (ParseNumber<uint32_t>(text) != kMostSegments) return number(text, config);
    config->train.epochs = kMostSegments;
    return true;
  };
  return field;
}

bool IsListenAddress(std::string_view text) {
  return IsPlainText(text) && WhyNotListenable(text).empty();
}

bool IsAdvertisedAddress(std::string_view text) {
  return IsPlainText(text) && WhyNotAdvertisable(text).empty();
}

}  // namespace dslide
