#include "common/data/xc_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <system_error>
#include <tuple>

#include "common/data/text_stream.h"

namespace dslide {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The text up to the next separator, for messages.
std::string_view TokenAt(const char* text, const char* end, std::string_view separators) {
  const std::string_view rest(text, static_cast<size_t>(end - text));
  return rest.substr(0, rest.find_first_of(separators));
}

// Plain decimals such as 0.1234. Up to 7 digits are exact in a float and so are powers of ten up to
// 10^10, hence one division rounds correctly (Clinger, "How to read floating point numbers
// accurately", PLDI 1990). False if the number is anything longer or more elaborate.
bool ParseShortDecimal(std::string_view text, float* value) {
  constexpr float kPowersOfTen[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F};
  uint32_t mantissa = 0;
  size_t digits = 0;
  size_t decimals = 0;
  bool after_point = false;
  for (const char c : text) {
    if (IsDigit(c)) {
      if (++digits > 7) return false;
      mantissa = 10 * mantissa + static_cast<uint32_t>(c - '0');
      if (after_point) ++decimals;
    } else if (c == '.' && !after_point) {
      after_point = true;
    } else {
      return false;
    }
  }
  if (digits == 0) return false;
  *value = static_cast<float>(mantissa) / kPowersOfTen[decimals];
  return true;
}

// from_chars calls both too large and too small numbers out of range; the small ones are valid.
bool ParseTinyFloat(std::string_view text, float* value) {
  double wide = 0;
  const char* end = text.data() + text.size();
  const auto [next, code] = std::from_chars(text.data(), end, wide);
  if (code != std::errc() || next != end || std::abs(wide) > 1) return false;
  *value = static_cast<float>(wide);
  return true;
}

bool StrictlyAscends(const std::vector<uint32_t>& ids) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
}

Error OutOfRange(const char* what, std::string_view digits, uint32_t count, bool has_header) {
  if (!has_header) {
    return BadInput(fmt::format("{} id {} is out of range (expected 0 to {})", what, Quoted(digits),
                                count - 1));
  }
  return BadInput(fmt::format("{} id {} is out of range (the header says {} {}s: 0 to {})", what,
                              Quoted(digits), count, what, count - 1));
}

Error Duplicate(const char* what, uint32_t id) {
  return BadInput(fmt::format("{} id {} is there twice (expected each once a sample)", what, id));
}

// Describes the bad label at `label`: its digits end at `next`, without a ',' or ' ' after them.
Error BadLabel(const char* label, const char* next, const char* end, bool is_first) {
  const std::string token = Quoted(TokenAt(label, end, ", "));
  if (is_first && next != label && next != end && *next == ':') {
    return BadInput(
        fmt::format("the line starts with a feature {} (expected labels; a sample "
                    "without labels starts with a space)",
                    token));
  }
  return BadInput(
      fmt::format("bad label {} (expected labels such as 3,17 and then a space)", token));
}

// Describes the bad feature at `feature`: its digits end at `next`, without a ':' after them.
Error BadFeature(const char* feature, const char* next, const char* end) {
  const std::string token = Quoted(TokenAt(feature, end, " "));
  if (next != feature && (next == end || *next == ' ')) {
    return BadInput(fmt::format("feature {} has no colon (expected feature:value)", token));
  }
  return BadInput(fmt::format("bad feature {} (expected feature:value)", token));
}

Error BadValue(uint64_t feature, std::string_view value) {
  return BadInput(
      fmt::format("the value {} of feature {} is not a finite number (expected such as 0.25)",
                  Quoted(value), feature));
}

}  // namespace

ScannedNumber ScanNumber(const char* text, const char* end) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  ScannedNumber number;
  for (; text != end && IsDigit(*text); ++text) {
    const auto digit = static_cast<uint64_t>(*text - '0');
    number.overflow = number.overflow || number.value > (kMax - digit) / 10;
    number.value = 10 * number.value + digit;
  }
  number.next = text;
  return number;
}

bool ParseFiniteFloat(std::string_view text, float* value) {
  if (ParseShortDecimal(text, value)) return true;
  // from_chars would accept "inf" and "nan".
  const std::string_view magnitude = text.substr(text.starts_with('-') ? 1 : 0);
  if (magnitude.empty() || !(IsDigit(magnitude[0]) || magnitude[0] == '.')) return false;
  const char* end = text.data() + text.size();
  const auto [next, code] = std::from_chars(text.data(), end, *value);
  if (code == std::errc::result_out_of_range) return ParseTinyFloat(text, value);
  return code == std::errc() && next == end && std::isfinite(*value);
}

XcLineParser::XcLineParser()
    : num_features_(std::numeric_limits<uint32_t>::max()),
      num_labels_(std::numeric_limits<uint32_t>::max()),
      has_header_(false) {}

Result<SampleView> XcLineParser::Parse(std::string_view line) {
  const char* text = line.data();
  const char* end = text + line.size();
  DSLIDE_RETURN_IF_ERROR(ParseLabels(&text, end));
  DSLIDE_RETURN_IF_ERROR(ParseFeatures(&text, end));
  DSLIDE_RETURN_IF_ERROR(SortLabels());
  DSLIDE_RETURN_IF_ERROR(SortFeatures());
  return SampleView{labels_, features_, values_};
}

Status XcLineParser::ParseLabels(const char** text, const char* end) {
  labels_.clear();
  const char* p = *text;
  if (p == end || *p == ' ') return {};
  while (true) {
    const ScannedNumber id = ScanNumber(p, end);
    const bool is_last = id.next == end || *id.next == ' ';
    if (id.next == p || (!is_last && *id.next != ',')) {
      return BadLabel(p, id.next, end, labels_.empty());
    }
    if (id.overflow || id.value >= num_labels_) {
      return OutOfRange("label", {p, id.next}, num_labels_, has_header_);
    }
    labels_.push_back(static_cast<uint32_t>(id.value));
    *text = id.next;
    if (is_last) return {};
    p = id.next + 1;
  }
}

Status XcLineParser::ParseFeatures(const char** text, const char* end) {
  features_.clear();
  values_.clear();
  const char* p = *text;
  while (true) {
    while (p != end && *p == ' ') ++p;
    *text = p;
    if (p == end) return {};
    const ScannedNumber id = ScanNumber(p, end);
    if (id.next == p || id.next == end || *id.next != ':') return BadFeature(p, id.next, end);
    if (id.overflow || id.value >= num_features_) {
      return OutOfRange("feature", {p, id.next}, num_features_, has_header_);
    }
    const char* value_end = std::find(id.next + 1, end, ' ');
    const std::string_view digits(id.next + 1, value_end);
    float value = 0;
    if (!ParseFiniteFloat(digits, &value)) return BadValue(id.value, digits);
    features_.push_back(static_cast<uint32_t>(id.value));
    values_.push_back(value);
    p = value_end;
  }
}

Status XcLineParser::SortLabels() {
  if (StrictlyAscends(labels_)) return {};
  std::sort(labels_.begin(), labels_.end());
  const auto twice = std::adjacent_find(labels_.begin(), labels_.end());
  if (twice != labels_.end()) return Duplicate("label", *twice);
  return {};
}

Status XcLineParser::SortFeatures() {
  if (StrictlyAscends(features_)) return {};
  sorted_.resize(features_.size());
  for (size_t i = 0; i < features_.size(); ++i) sorted_[i] = {features_[i], values_[i]};
  std::sort(sorted_.begin(), sorted_.end());
  for (size_t i = 0; i < sorted_.size(); ++i) {
    std::tie(features_[i], values_[i]) = sorted_[i];
    if (i > 0 && features_[i] == features_[i - 1]) return Duplicate("feature", features_[i]);
  }
  return {};
}

}  // namespace dslide
