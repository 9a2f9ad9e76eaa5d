#include "common/checkpoint/stored_label_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>

#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"

namespace dslide {
namespace {

// Reads a number and the character behind it from the beginning of *text.
bool ReadNumber(std::string_view* text, char behind, uint32_t* value) {
  const char* const end = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), end, *value);
  if (error != std::errc() || at == end || *at != behind) return false;
  text->remove_prefix(static_cast<size_t>(at + 1 - text->data()));
  return true;
}

}  // namespace

Status StoreLabelCounts(const std::string& directory, const std::vector<LabelCount>& counts) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  std::string text;
  for (const LabelCount& c : counts) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", c.label, std::min(c.count, kMost));
  }
  return WriteWholeFile(fmt::format("{}/{}", directory, kLabelCountsName), text);
}

Result<std::vector<uint32_t>> LoadLabelCountsOf(const std::string& checkpoint,
                                                uint32_t num_labels) {
  const std::string path =
      fmt::format("{}/{}", DirectoryOfCheckpoint(checkpoint), kLabelCountsName);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::vector<uint32_t>();
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  std::vector<uint32_t> counts(num_labels);
  std::string_view rest = *text;
  for (uint64_t line = 1; !rest.empty(); ++line) {
    uint32_t label = 0, count = 0;
    const bool sound = ReadNumber(&rest, '\t', &label) && ReadNumber(&rest, '\n', &count) &&
                       label < num_labels && count > 0 && counts[label] == 0;
    if (!sound) {
      return BadInput(fmt::format(
          "{}, line {}: is not a label below {}, a tab and its samples; remove the file to use the "
          "model without --rare",
          path, line, num_labels));
    }
    counts[label] = count;
  }
  return counts;
}

}  // namespace dslide
