#include "common/data/numbers/libsvm_reader.h"

#include <algorithm>

namespace dslide {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBlanks = " \t";

std::string_view WithoutComment(std::string_view line) {
  line = line.substr(0, line.find('#'));
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

// Removes the text up to the next blank from *line, and blanks after it.
std::string_view TakeWord(std::string_view* line) {
  const std::string_view word = line->substr(0, line->find_first_of(kBlanks));
  line->remove_prefix(word.size());
  line->remove_prefix(std::min(line->find_first_not_of(kBlanks), line->size()));
  return word;
}

bool IsFeature(std::string_view word) {
  const size_t colon = word.find_first_not_of(kDigits);
  return colon != 0 && colon != std::string_view::npos && word[colon] == ':' &&
         word.find_first_not_of("0123456789+-.eEinfatyINFATY", colon + 1) == std::string_view::npos;
}

}  // namespace

bool IsLabelList(std::string_view line) {
  line = WithoutComment(line);
  return !line.empty() && line.find_first_not_of("0123456789,") == std::string_view::npos;
}

bool IsLibsvmLine(std::string_view line) {
  line = WithoutComment(line);
  // The classes of other data may be "+1", "-1" or "1.0"; that labels are ids is said later.
  const std::string_view labels = TakeWord(&line);
  if (labels.find_first_not_of("0123456789,+-.") != std::string_view::npos || line.empty()) {
    return false;
  }
  while (!line.empty()) {
    if (!IsFeature(TakeWord(&line))) return false;
  }
  return true;
}

Result<std::optional<SampleView>> LibsvmReader::Next() {
  while (true) {
    const auto line = stream_.Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) return std::optional<SampleView>();
    std::string_view sample = WithoutComment(**line);
    if (sample.empty()) continue;
    if (sample.find('\t') != std::string_view::npos) {
      spaced_ = sample;
      std::ranges::replace(spaced_, '\t', ' ');
      sample = spaced_;
    }
    const Result<SampleView> parsed = parser_.Parse(sample);
    if (!parsed.ok()) return stream_.BadLine(parsed.error().message);
    return std::optional(*parsed);
  }
}

}  // namespace dslide
