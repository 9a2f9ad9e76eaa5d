#include "tools/dslide/data/record_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/plural.h"
#include "common/data/text_stream.h"

namespace dslide {
namespace {

constexpr std::string_view kLabelMark = "__label__";

std::string JsonOf(const std::string& text) { return nlohmann::json(text).dump(); }

bool HasLineEnd(const std::string& text) { return text.find('\n') != std::string::npos; }

// Reading the line gives the same fields: a "text" is divided at its first line end.
std::string JsonLine(const Record& record) {
  std::string line = "{";
  if (!record.id.empty()) line += fmt::format("\"id\":{},", record.id);
  const std::vector<std::string>& fields = record.fields;
  if (fields.size() == 1 && !HasLineEnd(fields[0])) {
    line += "\"text\":" + JsonOf(fields[0]);
  } else if (fields.size() == 2 && !HasLineEnd(fields[1])) {
    line += fmt::format("\"title\":{},\"text\":{}", JsonOf(fields[0]), JsonOf(fields[1]));
  } else {
    line += "\"text\":" + nlohmann::json(fields).dump();
  }
  line += ",\"labels\":" + nlohmann::json(record.labels).dump();
  if (record.weight != 1.0f) line += fmt::format(",\"weight\":{}", record.weight);
  return line + "}";
}

}  // namespace

std::string NotHeld::Text(RecordFormat format) const {
  std::vector<std::string> parts;
  const auto add = [&](uint64_t count, const std::string& one, const std::string& what) {
    if (count > 0) parts.push_back(Plural(count, one) + " " + what);
  };
  add(titles, "title", "joined with the text");
  add(separators, "text", "with tabs or line ends, now spaces");
  add(label_marks, "text", "with words that begin as labels do, now divided");
  add(label_names, "sample",
      format == RecordFormat::kFastText ? "with spaces in labels, now '_'"
                                        : "with labels in <>, now without");
  add(ids, "id", "left out");
  add(weights, "weight", "left out");
  if (parts.empty()) return "";
  return fmt::format("{} cannot hold all: {}", NameOf(format), Joined(parts, ", "));
}

Result<RecordWriter> RecordWriter::Create(const std::string& path, RecordFormat format) {
  Result<TextWriter> out = TextWriter::Create(path);
  DSLIDE_RETURN_IF_ERROR(out);
  return RecordWriter(format, *std::move(out));
}

// All fields, without tabs and line ends.
std::string RecordWriter::OneLine(const Record& record) {
  std::string text;
  for (const std::string& field : record.fields) (text += text.empty() ? "" : " ") += field;
  not_held_.titles += record.fields.size() > 1 ? 1 : 0;
  bool changed = false;
  for (char& c : text) {
    if (c != '\t' && c != '\n' && c != '\r') continue;
    c = ' ';
    changed = true;
  }
  not_held_.separators += changed ? 1 : 0;
  not_held_.ids += record.id.empty() ? 0 : 1;
  not_held_.weights += record.weight == 1.0f ? 0 : 1;
  return text;
}

// With a tab even without labels, which tells the format.
std::string RecordWriter::TsvLine(const Record& record) {
  std::string line = OneLine(record) + "\t";
  bool changed = false;
  for (size_t i = 0; i < record.labels.size(); ++i) {
    line += (i == 0 ? "" : "\t") + record.labels[i];
    changed |= record.labels[i].starts_with('<') || record.labels[i].ends_with('>');
  }
  if (changed && record.labels.front().starts_with('<') && record.labels.back().ends_with('>')) {
    ++not_held_.label_names;
  }
  return line;
}

std::string RecordWriter::FastTextLine(const Record& record) {
  std::string line;
  bool changed = false;
  for (std::string label : record.labels) {
    for (char& c : label) {
      changed |= c == ' ';
      if (c == ' ') c = '_';
    }
    ((line += kLabelMark) += label) += ' ';
  }
  not_held_.label_names += changed ? 1 : 0;
  std::string text = OneLine(record);
  bool marked = false;
  for (size_t at = 0; (at = text.find(kLabelMark, at)) != std::string::npos;) {
    if (at > 0 && text[at - 1] != ' ') {
      ++at;
      continue;
    }
    text.insert(at + 1, 1, ' ');
    marked = true;
    at += 2;
  }
  not_held_.label_marks += marked ? 1 : 0;
  return line + text;
}

void RecordWriter::Add(const Record& record) {
  const std::string line = format_ == RecordFormat::kJsonLines  ? JsonLine(record)
                           : format_ == RecordFormat::kFastText ? FastTextLine(record)
                                                                : TsvLine(record);
  out_.Write(line + "\n");
}

}  // namespace dslide
