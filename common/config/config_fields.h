// How one configuration value is read, checked and written. config_keys.cc builds its table from
// these; each function takes the path to a member: Whole(&Config::train, &TrainConfig::batch, ...).
#pragma once

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/config/config.h"

namespace dslide {

// How a value is read from a line or an override.
enum class ValueKind {
  kWord,    // without outer blanks
  kText,    // any text
  kCommand  // a command for a shell: quotes are part of the value
};

struct Field {
  std::string allowed;  // completes "must be ..."
  // Sets the member. Returns false and leaves the Config unchanged if the text is not allowed.
  std::function<bool(std::string_view text, Config*)> parse;
  // The member as text that `parse` turns into the same value again.
  std::function<std::string(const Config&)> format;
  // In place of `allowed` in errors, where all of it is too long for a table; empty: it is not.
  std::string allowed_in_full = {};
  ValueKind kind = ValueKind::kWord;
};

// "a, b or c".
std::string JoinWords(const std::vector<std::string>& words);

// Whether text is one line: no control bytes, and no outer spaces.
bool IsPlainText(std::string_view text);

// Plain text that is an address to listen at, or to advertise (common/base/address.h).
bool IsListenAddress(std::string_view text);
bool IsAdvertisedAddress(std::string_view text);

bool IsStemLanguage(std::string_view text);
// "off, arabic, ... or yiddish".
std::string StemLanguageNames();

// All of `text` as one finite decimal number: no sign on an unsigned one, no spaces, no suffix.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// A Field whose member is read by `read(text) -> optional<T>` and written by `write(T) -> string`.
template <typename Section, typename T, typename Read, typename Write>
Field MakeField(Section Config::*section, T Section::*member, std::string allowed, Read read,
                Write write) {
  return {std::move(allowed),
          [=](std::string_view text, Config* config) {
            std::optional<T> value = read(text);
            if (value) config->*section.*member = *std::move(value);
            return value.has_value();
          },
          [=](const Config& config) { return write(config.*section.*member); }};
}

// A number in the closed range [min, max], written in the shortest form that parses to it again.
template <typename Section, typename T>
Field Number(Section Config::*section, T Section::*member, std::type_identity_t<T> min,
             std::type_identity_t<T> max) {
  const auto read = [=](std::string_view text) {
    std::optional<T> value = ParseNumber<T>(text);
    return value && *value >= min && *value <= max ? value : std::nullopt;
  };
  return MakeField(section, member, fmt::format("{} to {}", min, max), read,
                   [](T value) { return fmt::format("{}", value); });
}

// 0, or a number in the closed range [min, max].
template <typename Section, typename T>
Field ZeroOr(Section Config::*section, T Section::*member, std::type_identity_t<T> min,
             std::type_identity_t<T> max) {
  const auto read = [=](std::string_view text) {
    std::optional<T> value = ParseNumber<T>(text);
    return value && (*value == 0 || (*value >= min && *value <= max)) ? value : std::nullopt;
  };
  return MakeField(section, member, fmt::format("0, or {} to {}", min, max), read,
                   [](T value) { return fmt::format("{}", value); });
}

// "auto" for nullopt, or a number in the closed range [min, max].
template <typename Section, typename T>
Field AutoOr(Section Config::*section, std::optional<T> Section::*member,
             std::type_identity_t<T> min, std::type_identity_t<T> max) {
  const auto read = [=](std::string_view text) -> std::optional<std::optional<T>> {
    if (text == "auto") return std::optional<T>();
    const std::optional<T> value = ParseNumber<T>(text);
    if (!value || *value < min || *value > max) return std::nullopt;
    return value;
  };
  return MakeField(
      section, member, fmt::format("auto, or {} to {}", min, max), read,
      [](const std::optional<T>& value) { return value ? fmt::format("{}", *value) : "auto"; });
}

// One of a few values, each with its word.
template <typename Section, typename T>
Field OneOf(Section Config::*section, T Section::*member,
            std::vector<std::pair<std::string, std::type_identity_t<T>>> words) {
  std::vector<std::string> names;
  for (const auto& [word, value] : words) names.push_back(word);
  const auto read = [words](std::string_view text) -> std::optional<T> {
    for (const auto& [word, value] : words) {
      if (word == text) return value;
    }
    return std::nullopt;
  };
  const auto write = [words](const T& wanted) -> std::string {
    for (const auto& [word, value] : words) {
      if (value == wanted) return word;
    }
    return {};  // code has set a value without a word: parsing refuses it
  };
  return MakeField(section, member, JoinWords(names), read, write);
}

template <typename Section>
Field Boolean(Section Config::*section, bool Section::*member) {
  return OneOf(section, member, {{"true", true}, {"false", false}});
}

// Text for which `accept` holds.
template <typename Section, typename Accept>
Field TextThat(Section Config::*section, std::string Section::*member, std::string allowed,
               Accept accept) {
  const auto read = [=](std::string_view text) {
    return accept(text) ? std::optional<std::string>(text) : std::nullopt;
  };
  return MakeField(section, member, std::move(allowed), read,
                   [](const std::string& value) { return value; });
}

// Any text without zero bytes, usually a path; may be empty.
template <typename Section>
Field Text(Section Config::*section, std::string Section::*member) {
  Field field = TextThat(section, member, "text",
                         [](std::string_view text) { return text.find('\0') == text.npos; });
  field.allowed_in_full = "text without zero bytes";
  field.kind = ValueKind::kText;
  return field;
}

// A command for a shell.
template <typename Section>
Field ShellCommand(Section Config::*section, std::string Section::*member) {
  Field field = Text(section, member);
  field.kind = ValueKind::kCommand;
  return field;
}

template <typename Section>
Field BindAddress(Section Config::*section, std::string Section::*member) {
  return TextThat(section, member, "tcp://host:port or ipc://path", IsListenAddress);
}

template <typename Section>
Field BindAddressOrEmpty(Section Config::*section, std::string Section::*member) {
  return TextThat(section, member, "empty, tcp://host:port or ipc://path",
                  [](std::string_view text) { return text.empty() || IsListenAddress(text); });
}

template <typename Section>
Field AdvertisedAddressOrEmpty(Section Config::*section, std::string Section::*member) {
  return TextThat(section, member, "empty, tcp://host:port with one host or ipc://path",
                  [](std::string_view text) { return text.empty() || IsAdvertisedAddress(text); });
}

// Widths of hidden layers: a number, or several with commas between them.
Field HiddenLayers();

// train.normalize: "auto", "off" for 1, or a number above 0.
Field Normalize();

// train.audit: a share, or -1 for a derived one.
Field AuditShare();

// A number of epochs, or kMostSegments, which is derived for streams alone.
Field Epochs();

// Hours of the week (common/config/week_hours.h).
template <typename Section>
Field Hours(Section Config::*section, WeekHours Section::*member) {
  Field field = MakeField(section, member, "always or hours", WeekHours::Parse,
                          [](const WeekHours& hours) { return hours.text(); });
  field.allowed_in_full =
      "always, or hours such as 18:00-08:00 or mon-fri 18:00-08:00, sat-sun 00:00-24:00";
  return field;
}

// kNoStems, or one of StemLanguages() (common/stem/stemmer.h).
template <typename Section>
Field StemLanguage(Section Config::*section, std::string Section::*member) {
  Field field = TextThat(section, member, "off or a language of libstemmer", IsStemLanguage);
  field.allowed_in_full = StemLanguageNames();
  return field;
}

}  // namespace dslide
