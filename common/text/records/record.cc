#include "common/text/records/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/data/dataset.h"
#include "common/data/text_stream.h"
#include "common/text/records/json_depth.h"
#include "common/text/records/label_taker.h"
#include "common/text/records/words.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFastTextLabel = "__label__";
constexpr std::string_view kBlanks = " \t\r";

// The identifier of {"uri": ..., "label": ...}, else the name; nullptr: it is no such object.
const Json* NameOf(const Json& label) {
  if (!label.is_object()) return nullptr;
  for (const char* key : {"uri", "label"}) {
    const auto found = label.find(key);
    if (found != label.end() && found->is_string()) return &*found;
  }
  return nullptr;
}

Status TakeLabel(const Json& label, LabelTaker* taker) {
  if (label.is_null()) return {};
  if (label.is_string()) {
    taker->Take(label.get_ref<const std::string&>());
  } else if (label.is_number_integer()) {
    taker->Take(label.dump());
  } else if (const Json* name = NameOf(label); name != nullptr) {
    taker->Take(name->get_ref<const std::string&>());
  } else {
    return BadInput(fmt::format("a label is {}, not a name or a whole number",
                                label.is_number() ? "a fraction" : label.type_name()));
  }
  return {};
}

Status TakeLabels(const Json& labels, LabelTaker* taker) {
  if (!labels.is_array()) return TakeLabel(labels, taker);
  for (const Json& label : labels) DSLIDE_RETURN_IF_ERROR(TakeLabel(label, taker));
  return {};
}

Status TakeText(const Json& text, const FieldNames& names, Record* record) {
  if (text.is_string()) {
    record->fields = FieldsOf(text.get_ref<const std::string&>());
    return {};
  }
  const bool strings = text.is_array() && std::ranges::all_of(text, [](const Json& t) {
                         return t.is_string() || t.is_null();
                       });
  if (!strings) {
    return BadInput(fmt::format("\"{}\" is not a string or a list of strings", names.text));
  }
  for (const Json& field : text) {
    // The other fields keep their places.
    record->fields.push_back(field.is_null() ? "" : field.get<std::string>());
  }
  return {};
}

Status TakeWeight(const Json& weight, const FieldNames& names, Record* record) {
  const double value = weight.is_number() ? weight.get<double>() : -1;
  if (!IsSampleWeight(value)) {
    return BadInput(fmt::format("\"{}\" is {} (expected a number from 0 to {})", names.weight,
                                Quoted(weight.dump()), kMostSampleWeight));
  }
  record->weight = static_cast<float>(value);
  return {};
}

// A member of an object; nullptr: it is absent, or null.
const Json* Find(const Json& object, const std::string& key) {
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

// The key of `object` that looks like a misspelt `labels`; "" if no key does.
std::string NearKey(const Json& object, const std::string& labels) {
  const std::vector<std::string> known = {labels};
  for (const auto& [key, value] : object.items()) {
    std::string lower = key.substr(0, 2 * known[0].size());
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (key != known[0] && Nearest(lower, known) != nullptr) return key;
  }
  return "";
}

Error NoJson(std::string_view line) {
  const std::string_view half = HalfCharacter(line);
  if (half.empty()) return BadInput(fmt::format("{} is not JSON", Quoted(line)));
  return BadInput(fmt::format("{} has {}, which is half a character (cut texts between characters)",
                              Quoted(line), half));
}

Error NoText(const FieldNames& names) {
  return BadInput(fmt::format("the object has no \"{}\" (expected {{\"{}\": ..., \"{}\": [...]}})",
                              names.text, names.text, names.labels));
}

Result<Record> ParseJson(std::string_view line, const FieldNames& names) {
  if (const Status text = CheckJsonText(line); !text.ok()) {
    return BadInput(fmt::format("{} {}", Quoted(line), text.error().message));
  }
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return NoJson(line);
  if (!json.is_object()) return BadInput(fmt::format("{} is not a JSON object", Quoted(line)));
  Record record;
  const Json* title = Find(json, names.title);
  const Json* text = Find(json, names.text);
  if (text == nullptr && title == nullptr) return NoText(names);
  if (text != nullptr) DSLIDE_RETURN_IF_ERROR(TakeText(*text, names, &record));
  if (title != nullptr) {
    if (!title->is_string()) return BadInput(fmt::format("\"{}\" is not a string", names.title));
    record.fields.insert(record.fields.begin(), title->get<std::string>());
  }
  const FieldNames usual;
  const Json* labels = Find(json, names.labels);
  if (labels == nullptr && names.labels == usual.labels) labels = Find(json, "subjects");
  if (labels != nullptr) {
    LabelTaker taker(&record, names.separator);
    DSLIDE_RETURN_IF_ERROR(TakeLabels(*labels, &taker));
  } else {
    record.near_key = NearKey(json, names.labels);
  }
  if (const Json* weight = Find(json, names.weight)) {
    DSLIDE_RETURN_IF_ERROR(TakeWeight(*weight, names, &record));
  }
  const Json* id = Find(json, names.id);
  if (id == nullptr && names.id == usual.id) id = Find(json, "document_id");
  if (id != nullptr) record.id = id->dump();
  return record;
}

Record ParseFastText(std::string_view line, const FieldNames& names) {
  Record record;
  LabelTaker taker(&record, names.separator);
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

std::string_view WithoutBrackets(std::string_view uri) {
  const bool has = uri.starts_with('<') && uri.ends_with('>');
  return has ? uri.substr(1, uri.size() - 2) : uri;
}

Record ParseTsv(std::string_view line, const FieldNames& names) {
  Record record;
  LabelTaker taker(&record, names.separator);
  const size_t tab = std::min(line.find('\t'), line.size());
  record.fields = FieldsOf(line.substr(0, tab));
  const std::string_view labels = line.substr(tab);
  const bool uris = Trimmed(labels).starts_with('<') && Trimmed(labels).ends_with('>');
  ForEachPart(labels, uris ? " \t" : "\t",
              [&](std::string_view label) { taker.Take(uris ? WithoutBrackets(label) : label); });
  return record;
}

// A name may begin with a bracket: "[DE] Physik".
Status TakeCsvLabels(const std::string& cell, LabelTaker* taker) {
  const std::string_view trimmed = Trimmed(cell);
  if (!trimmed.starts_with('[') || !trimmed.ends_with(']')) {
    taker->Take(cell);
    return {};
  }
  DSLIDE_RETURN_IF_ERROR(CheckJsonText(cell));
  const Json list = Json::parse(cell, nullptr, /*allow_exceptions=*/false);
  if (list.is_discarded()) return BadInput(fmt::format("{} is not a JSON list", Quoted(cell)));
  return TakeLabels(list, taker);
}

Status TakeCsvWeight(std::string_view cell, const FieldNames& names, Record* record) {
  if (cell.empty()) return {};
  const Json number = Json::parse(cell, nullptr, /*allow_exceptions=*/false);
  return TakeWeight(number.is_discarded() ? Json(cell) : number, names, record);
}

Status TakeCell(CsvField field, const std::string& cell, const FieldNames& names, Record* record,
                LabelTaker* taker) {
  switch (field) {
    case CsvField::kText:
      for (std::string& text : FieldsOf(cell)) record->fields.push_back(std::move(text));
      return {};
    case CsvField::kTitle:
      if (!IsBlank(cell)) record->fields.insert(record->fields.begin(), cell);
      return {};
    case CsvField::kLabels:
      return TakeCsvLabels(cell, taker);
    case CsvField::kUris:
      ForEachPart(cell, " \t\n",
                  [&](std::string_view uri) { taker->TakeWhole(WithoutBrackets(uri)); });
      return {};
    case CsvField::kId:
      if (!cell.empty()) record->id = Json(cell).dump();
      return {};
    case CsvField::kWeight:
      return TakeCsvWeight(Trimmed(cell), names, record);
    case CsvField::kOther:
      return {};
  }
  return {};
}

Result<Record> ParseCsv(std::string_view line, const RecordRules& rules) {
  Record record;
  if (IsBlank(line)) return record;
  const CsvColumns& columns = rules.columns;
  const Result<std::vector<std::string>> cells = SplitCsv(line, columns.separator);
  DSLIDE_RETURN_IF_ERROR(cells);
  if (cells->size() != columns.fields.size()) {
    return BadInput(fmt::format("{} has {}, but the header {}", Quoted(line),
                                Plural(cells->size(), "column"), columns.fields.size()));
  }
  LabelTaker taker(&record, rules.fields.separator);
  for (size_t i = 0; i < cells->size(); ++i) {
    DSLIDE_RETURN_IF_ERROR(TakeCell(columns.fields[i], (*cells)[i], rules.fields, &record, &taker));
  }
  return record;
}

}  // namespace

bool HasFastTextLabel(std::string_view line) {
  for (size_t at = 0; (at = line.find(kFastTextLabel, at)) != std::string_view::npos; ++at) {
    if (at == 0 || kBlanks.find(line[at - 1]) != std::string_view::npos) return true;
  }
  return false;
}

std::vector<std::string> FieldsOf(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return {std::string(text)};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

Result<Record> ParseRecord(const RecordRules& rules, std::string_view line) {
  if (!IsUtf8(line)) {
    return BadInput(
        fmt::format("{} is not UTF-8; convert the file, for instance by iconv", Quoted(line)));
  }
  switch (rules.format) {
    case RecordFormat::kJsonLines:
      return ParseJson(line, rules.fields);
    case RecordFormat::kFastText:
      return ParseFastText(line, rules.fields);
    case RecordFormat::kTsv:
      return ParseTsv(line, rules.fields);
    case RecordFormat::kPlainText:
      return Record{FieldsOf(line), {}};
    case RecordFormat::kCsv:
      return ParseCsv(line, rules);
  }
  return Record{};
}

}  // namespace dslide
