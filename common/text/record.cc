#include "common/text/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_set>

#include "common/base/nearest.h"
#include "common/data/dataset.h"
#include "common/data/json_depth.h"
#include "common/data/numbers/number_file.h"
#include "common/data/text_stream.h"
#include "common/text/words.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFastTextLabel = "__label__";
constexpr std::string_view kBlanks = " \t\r";

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Calls take() with each part between separators; empty parts are left out.
template <typename Take>
void ForEachPart(std::string_view text, std::string_view separators, const Take& take) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (const std::string_view part = Trimmed(text.substr(0, end)); !part.empty()) take(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Keeps the first of equal names.
class LabelTaker {
 public:
  explicit LabelTaker(Record* record) : record_(record) {}

  void Take(std::string_view name) {
    std::string cleaned(name);
    for (char& c : cleaned) {
      if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) continue;
      c = ' ';
      record_->labels_cleaned = true;
    }
    const std::string_view trimmed = Trimmed(cleaned);
    if (!trimmed.empty() && seen_.emplace(trimmed).second) record_->labels.emplace_back(trimmed);
  }

 private:
  Record* record_;
  std::unordered_set<std::string> seen_;
};

Status TakeLabel(const Json& label, LabelTaker* taker) {
  if (label.is_null()) return {};
  if (label.is_string()) {
    taker->Take(label.get_ref<const std::string&>());
  } else if (label.is_number_integer()) {
    taker->Take(label.dump());
  } else {
    return BadInput(fmt::format("a label is {}, not a name or a whole number",
                                label.is_number() ? "a fraction" : label.type_name()));
  }
  return {};
}

Status TakeLabels(const Json& labels, Record* record) {
  LabelTaker taker(record);
  if (!labels.is_array()) return TakeLabel(labels, &taker);
  for (const Json& label : labels) DSLIDE_RETURN_IF_ERROR(TakeLabel(label, &taker));
  return {};
}

Status TakeText(const Json& text, Record* record) {
  if (text.is_string()) {
    record->fields = FieldsOf(text.get_ref<const std::string&>());
    return {};
  }
  const bool strings = text.is_array() && std::ranges::all_of(text, [](const Json& t) {
                         return t.is_string() || t.is_null();
                       });
  if (!strings) return BadInput("\"text\" is no string and no list of strings");
  for (const Json& field : text) {
    // The other fields keep their places.
    record->fields.push_back(field.is_null() ? "" : field.get<std::string>());
  }
  return {};
}

Status TakeWeight(const Json& weight, Record* record) {
  const double value = weight.is_number() ? weight.get<double>() : -1;
  if (!IsSampleWeight(value)) {
    return BadInput(fmt::format("\"weight\" is {} (expected a number from 0 to {})",
                                Quoted(weight.dump()), kMostSampleWeight));
  }
  record->weight = static_cast<float>(value);
  return {};
}

// A member of an object; nullptr: it is absent, or null.
const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The code unit of the escape \uXXXX with which `json` begins; nullopt if it begins otherwise.
std::optional<uint32_t> EscapedUnit(std::string_view json) {
  constexpr size_t kSize = 6;
  uint32_t unit = 0;
  if (json.size() < kSize || !json.starts_with("\\u")) return std::nullopt;
  const char* end = json.data() + kSize;
  const auto [stopped, error] = std::from_chars(json.data() + 2, end, unit, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return unit;
}

// The first escape of half a character: a UTF-16 surrogate that is not one of a pair. Programs that
// cut texts by UTF-16 units write it. Empty if all are whole.
std::string_view HalfCharacter(std::string_view json) {
  constexpr size_t kSize = 6;
  const auto is_high = [](std::optional<uint32_t> unit) { return unit && *unit >> 10 == 0x36; };
  const auto is_low = [](std::optional<uint32_t> unit) { return unit && *unit >> 10 == 0x37; };
  for (size_t at = json.find('\\'); at < json.size(); at = json.find('\\', at)) {
    const std::optional<uint32_t> unit = EscapedUnit(json.substr(at));
    const bool is_whole =
        is_high(unit) && is_low(EscapedUnit(json.substr(std::min(at + kSize, json.size()))));
    if (!is_whole && (is_high(unit) || is_low(unit))) return json.substr(at, kSize);
    at += is_whole ? 2 * kSize : 2;
  }
  return {};
}

// The key that somebody wrote for "labels"; "" if no key is near it.
std::string NearKey(const Json& object) {
  static const std::vector<std::string> kLabels = {"labels"};
  for (const auto& [key, value] : object.items()) {
    std::string lower = key.substr(0, 2 * kLabels[0].size());
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (key != kLabels[0] && Nearest(lower, kLabels) != nullptr) return key;
  }
  return "";
}

Error NoJson(std::string_view line) {
  const std::string_view half = HalfCharacter(line);
  if (half.empty()) return BadInput(fmt::format("{} is no JSON", Quoted(line)));
  return BadInput(fmt::format("{} has {}, which is half a character (cut texts between characters)",
                              Quoted(line), half));
}

Result<Record> ParseJson(std::string_view line) {
  if (const Status text = CheckJsonText(line); !text.ok()) {
    return BadInput(fmt::format("{} {}", Quoted(line), text.error().message));
  }
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return NoJson(line);
  if (!json.is_object()) return BadInput(fmt::format("{} is no JSON object", Quoted(line)));
  Record record;
  const Json* title = Find(json, "title");
  const Json* text = Find(json, "text");
  if (text == nullptr && title == nullptr) {
    return BadInput("the object has no \"text\" (expected {\"text\": ..., \"labels\": [...]})");
  }
  if (text != nullptr) DSLIDE_RETURN_IF_ERROR(TakeText(*text, &record));
  if (title != nullptr) {
    if (!title->is_string()) return BadInput("\"title\" is no string");
    record.fields.insert(record.fields.begin(), title->get<std::string>());
  }
  if (const Json* labels = Find(json, "labels")) {
    DSLIDE_RETURN_IF_ERROR(TakeLabels(*labels, &record));
  } else {
    record.near_key = NearKey(json);
  }
  if (const Json* weight = Find(json, "weight")) {
    DSLIDE_RETURN_IF_ERROR(TakeWeight(*weight, &record));
  }
  if (const Json* id = Find(json, "id")) record.id = id->dump();
  return record;
}

Record ParseFastText(std::string_view line) {
  Record record;
  LabelTaker taker(&record);
  std::string text;
  ForEachPart(line, kBlanks, [&](std::string_view word) {
    if (!word.starts_with(kFastTextLabel)) {
      text.append(text.empty() ? 0 : 1, ' ').append(word);
    } else {
      taker.Take(word.substr(kFastTextLabel.size()));
    }
  });
  record.fields.push_back(std::move(text));
  return record;
}

Record ParseTsv(std::string_view line) {
  Record record;
  LabelTaker taker(&record);
  const size_t tab = std::min(line.find('\t'), line.size());
  record.fields = FieldsOf(line.substr(0, tab));
  const std::string_view labels = line.substr(tab);
  const bool uris = Trimmed(labels).starts_with('<') && Trimmed(labels).ends_with('>');
  ForEachPart(labels, uris ? " \t" : "\t", [&](std::string_view label) {
    if (uris && label.starts_with('<') && label.ends_with('>')) {
      label = label.substr(1, label.size() - 2);
    }
    taker.Take(label);
  });
  return record;
}

}  // namespace

std::string_view NameOf(RecordFormat format) {
  switch (format) {
    case RecordFormat::kJsonLines:
      return "JSON lines";
    case RecordFormat::kFastText:
      return "fastText";
    case RecordFormat::kTsv:
      return "TSV";
    case RecordFormat::kPlainText:
      return "plain text";
  }
  return "";
}

std::optional<RecordFormat> RecordFormatOf(std::string_view line) {
  if (Trimmed(line).starts_with('{')) return RecordFormat::kJsonLines;
  if (IsNumbersHeader(line)) return std::nullopt;
  bool labelled = false;
  ForEachPart(line, kBlanks,
              [&](std::string_view word) { labelled |= word.starts_with(kFastTextLabel); });
  if (labelled) return RecordFormat::kFastText;
  if (IsLibsvmLine(line)) return std::nullopt;  // it may have tabs
  if (line.find('\t') != std::string_view::npos) return RecordFormat::kTsv;
  return std::nullopt;
}

std::vector<std::string> FieldsOf(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return {std::string(text)};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

Result<Record> ParseRecord(RecordFormat format, std::string_view line) {
  if (!IsUtf8(line)) {
    return BadInput(
        fmt::format("{} is no UTF-8; convert the file, for instance by iconv", Quoted(line)));
  }
  switch (format) {
    case RecordFormat::kJsonLines:
      return ParseJson(line);
    case RecordFormat::kFastText:
      return ParseFastText(line);
    case RecordFormat::kTsv:
      return ParseTsv(line);
    case RecordFormat::kPlainText:
      return Record{FieldsOf(line), {}};
  }
  return Record{};
}

}  // namespace dslide
