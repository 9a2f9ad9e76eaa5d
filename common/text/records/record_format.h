// The formats of files of records (record.h), and how a file's lines tell which one it is.
//
// Many lines are looked at, not the first one alone: a line without a label looks like plain text
// in fastText and in TSV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/text/records/field_names.h"

namespace dslide {

// The numbers are stored (schema/vocabulary.fbs).
enum class RecordFormat { kJsonLines, kFastText, kTsv, kPlainText, kCsv };

// "JSON lines", ...
std::string_view NameOf(RecordFormat format);

// The value of text.format for a format of records.
TextFormat TextFormatOf(RecordFormat format);
// nullopt: numbers, words, sessions, or "look".
std::optional<RecordFormat> RecordFormatOf(TextFormat format);

// The values of text.format: "json", ...
std::string NameOf(TextFormat format);
std::optional<TextFormat> TextFormatByName(std::string_view name);

// How a data file is read.
struct DataFormat {
  TextFormat format = TextFormat::kRecords;  // kRecords: as its lines look
  std::string fields;                        // text.fields
  bool is_model = false;                     // what a model was trained on; false: the user's word
};
// The format that a run's configuration names.
DataFormat DataFormatOf(const TextConfig& text);

// The whole lines at the beginning of a file that are not blank. The views are into the text.
struct HeadLines {
  static constexpr size_t kBytes = size_t{1} << 20;  // that are looked at
  static constexpr size_t kMostLines = 10'000;

  // `text`: the first kBytes of a file; a shorter one is all of it.
  explicit HeadLines(std::string_view text);

  std::vector<std::string_view> lines;
  std::vector<uint64_t> numbers;  // of the lines in the text, from 1
};

// The format of a file that begins with these lines; REQUIRES one at least. kPlain: no other one
// fits. A file is fastText or TSV if 1 % of its lines have labels, and CSV if its first line
// names columns.
TextFormat FormatOf(const HeadLines& head, const FieldNames& fields);

// The first of the lines that contradict the format; nullopt: they are at most 1 %, or a single one
// of several. Errors of single lines are ParseRecord()'s.
struct Contradiction {
  size_t first = 0;  // of HeadLines::lines
  size_t lines = 0;
};
std::optional<Contradiction> ContradictionOf(RecordFormat format, const HeadLines& head);

}  // namespace dslide
