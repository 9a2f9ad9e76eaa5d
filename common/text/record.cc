#include "common/text/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/data/text_stream.h"

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

void AddLabel(std::string_view name, Record* record) {
  const std::string_view trimmed = Trimmed(name);
  if (trimmed.empty() || std::ranges::find(record->labels, trimmed) != record->labels.end()) return;
  record->labels.emplace_back(trimmed);
}

// A name; numbers are names too.
Result<std::string> LabelOf(const Json& label) {
  if (label.is_string()) return label.get<std::string>();
  if (label.is_number_integer()) return label.dump();
  return BadInput(fmt::format("label {} is no name and no whole number", Quoted(label.dump())));
}

Status TakeLabels(const Json& labels, Record* record) {
  const Json list = labels.is_array() ? labels : Json::array({labels});
  for (const Json& label : list) {
    Result<std::string> name = LabelOf(label);
    DSLIDE_RETURN_IF_ERROR(name);
    AddLabel(*name, record);
  }
  return {};
}

Status TakeText(const Json& text, Record* record) {
  if (text.is_string()) {
    record->fields = FieldsOf(text.get_ref<const std::string&>());
    return {};
  }
  const bool strings =
      text.is_array() && std::ranges::all_of(text, [](const Json& t) { return t.is_string(); });
  if (!strings) return BadInput("\"text\" is no string and no list of strings");
  for (const Json& field : text) record->fields.push_back(field.get<std::string>());
  return {};
}

Result<Record> ParseJson(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return BadInput(fmt::format("{} is no JSON", Quoted(line)));
  if (!json.is_object()) return BadInput(fmt::format("{} is no JSON object", Quoted(line)));
  Record record;
  const auto text = json.find("text");
  if (text == json.end()) {
    return BadInput("the object has no \"text\" (expected {\"text\": ..., \"labels\": [...]})");
  }
  DSLIDE_RETURN_IF_ERROR(TakeText(*text, &record));
  if (const auto labels = json.find("labels"); labels != json.end() && !labels->is_null()) {
    DSLIDE_RETURN_IF_ERROR(TakeLabels(*labels, &record));
  }
  if (const auto id = json.find("id"); id != json.end()) {
    record.id = id->is_string() ? id->get<std::string>() : id->dump();
  }
  return record;
}

Record ParseFastText(std::string_view line) {
  Record record;
  std::string text;
  ForEachPart(line, kBlanks, [&](std::string_view word) {
    if (word.starts_with(kFastTextLabel)) {
      AddLabel(word.substr(kFastTextLabel.size()), &record);
    } else {
      text.append(text.empty() ? 0 : 1, ' ').append(word);
    }
  });
  record.fields.push_back(std::move(text));
  return record;
}

Record ParseTsv(std::string_view line) {
  Record record;
  const size_t tab = std::min(line.find('\t'), line.size());
  record.fields = FieldsOf(line.substr(0, tab));
  std::string_view labels = line.substr(tab);
  const bool uris = Trimmed(labels).starts_with('<') && Trimmed(labels).ends_with('>');
  ForEachPart(labels, uris ? " \t" : "\t", [&](std::string_view label) {
    if (uris && label.starts_with('<') && label.ends_with('>')) {
      label = label.substr(1, label.size() - 2);
    }
    AddLabel(label, &record);
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
  }
  return "";
}

std::optional<RecordFormat> RecordFormatOf(std::string_view line) {
  if (Trimmed(line).starts_with('{')) return RecordFormat::kJsonLines;
  if (line.find('\t') != std::string_view::npos) return RecordFormat::kTsv;
  bool labelled = false;
  ForEachPart(line, kBlanks,
              [&](std::string_view word) { labelled |= word.starts_with(kFastTextLabel); });
  if (labelled) return RecordFormat::kFastText;
  return std::nullopt;
}

std::vector<std::string> FieldsOf(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return {std::string(text)};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

Result<Record> ParseRecord(RecordFormat format, std::string_view line) {
  switch (format) {
    case RecordFormat::kJsonLines:
      return ParseJson(line);
    case RecordFormat::kFastText:
      return ParseFastText(line);
    case RecordFormat::kTsv:
      return ParseTsv(line);
  }
  return Record{};
}

}  // namespace dslide
