#include "common/text/records/record_format.h"

#include <algorithm>
#include <array>

#include "common/config/config_keys.h"
#include "common/config/small_text.h"
#include "common/data/numbers/number_file.h"
#include "common/data/text_stream.h"
#include "common/text/records/csv.h"
#include "common/text/records/record.h"

namespace dslide {
namespace {

// A line alone. kOther: it may be one without labels of fastText or TSV, or plain text.
enum class LineKind { kJson, kFastText, kNumbers, kTsv, kOther };

LineKind KindOf(std::string_view line) {
  if (line[line.find_first_not_of(" \t\r")] == '{') return LineKind::kJson;
  if (HasFastTextLabel(line)) return LineKind::kFastText;
  if (IsLibsvmLine(line)) return LineKind::kNumbers;  // it may have tabs
  return line.find('\t') == std::string_view::npos ? LineKind::kOther : LineKind::kTsv;
}

struct KindCounts {
  std::array<size_t, 5> counts = {};
  size_t lines = 0;

  size_t Of(LineKind kind) const { return counts[static_cast<size_t>(kind)]; }
  bool IsMost(LineKind kind) const { return 2 * Of(kind) >= lines; }
  bool HasOnePercent(LineKind kind) const { return Of(kind) > 0 && 100 * Of(kind) >= lines; }
};

KindCounts Count(const HeadLines& head) {
  KindCounts counts;
  counts.lines = head.lines.size();
  for (const std::string_view line : head.lines) {
    ++counts.counts[static_cast<size_t>(KindOf(line))];
  }
  return counts;
}

bool IsComment(std::string_view line) { return line.starts_with('#'); }

// Numbers have no line of another kind: the first one has to be of their format too.
std::optional<TextFormat> NumbersOf(const HeadLines& head) {
  const auto first = std::ranges::find_if_not(head.lines, IsComment);
  if (first == head.lines.end()) return std::nullopt;
  const bool has_header = IsNumbersHeader(*first);
  if (!has_header && !IsLibsvmLine(*first) && !IsLabelList(*first)) return std::nullopt;
  const auto others = static_cast<size_t>(head.lines.end() - first) - 1;
  const auto numbers =
      static_cast<size_t>(std::count_if(first + 1, head.lines.end(), [](std::string_view line) {
        return IsComment(line) || IsLibsvmLine(line) || IsLabelList(line);
      }));
  if (2 * numbers < others) return std::nullopt;
  return has_header ? TextFormat::kNumbers : TextFormat::kLibsvm;
}

bool IsContrary(RecordFormat format, LineKind kind, const KindCounts& counts) {
  const bool is_other = kind == LineKind::kJson || kind == LineKind::kNumbers;
  const bool is_fast_text = counts.Of(LineKind::kFastText) >= counts.Of(LineKind::kTsv);
  switch (format) {
    case RecordFormat::kJsonLines:
      return kind != LineKind::kJson;
    case RecordFormat::kFastText:
      return is_other || (kind == LineKind::kTsv && !is_fast_text);
    case RecordFormat::kTsv:
      return is_other || (kind == LineKind::kFastText && is_fast_text);
    case RecordFormat::kPlainText:
    case RecordFormat::kCsv:  // its header tells
      return false;
  }
  return false;
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
    case RecordFormat::kCsv:
      return "CSV";
  }
  return "";
}

TextFormat TextFormatOf(RecordFormat format) {
  switch (format) {
    case RecordFormat::kJsonLines:
      return TextFormat::kJson;
    case RecordFormat::kFastText:
      return TextFormat::kFastText;
    case RecordFormat::kTsv:
      return TextFormat::kTsv;
    case RecordFormat::kPlainText:
      return TextFormat::kPlain;
    case RecordFormat::kCsv:
      return TextFormat::kCsv;
  }
  return TextFormat::kRecords;
}

std::optional<RecordFormat> RecordFormatOf(TextFormat format) {
  for (const RecordFormat records :
       {RecordFormat::kJsonLines, RecordFormat::kFastText, RecordFormat::kTsv,
        RecordFormat::kPlainText, RecordFormat::kCsv}) {
    if (TextFormatOf(records) == format) return records;
  }
  return std::nullopt;
}

std::string NameOf(TextFormat format) {
  Config config;
  config.text.format = format;
  return FindConfigKey("text.format")->field.format(config);
}

std::optional<TextFormat> TextFormatByName(std::string_view name) {
  Config config;
  if (!FindConfigKey("text.format")->field.parse(name, &config)) return std::nullopt;
  return config.text.format;
}

DataFormat DataFormatOf(const TextConfig& text) { return {text.format, text.fields, false}; }

HeadLines::HeadLines(std::string_view text) {
  const bool goes_on = text.size() + kByteOrderMark.size() >= kBytes;  // a mark was taken off
  for (uint64_t number = 1; !text.empty() && lines.size() < kMostLines; ++number) {
    const bool is_cut = goes_on && text.find('\n') == text.npos && !lines.empty();
    const std::string_view line = NextLine(&text);
    if (!IsBlank(line) && !is_cut) {
      lines.push_back(line);
      numbers.push_back(number);
    }
  }
}

TextFormat FormatOf(const HeadLines& head, const FieldNames& fields) {
  const KindCounts counts = Count(head);
  if (counts.IsMost(LineKind::kJson)) return TextFormat::kJson;
  if (const auto numbers = NumbersOf(head)) return *numbers;
  if (CsvColumns::Find(head.lines.front(), fields)) return TextFormat::kCsv;
  const bool is_fast_text = counts.Of(LineKind::kFastText) >= counts.Of(LineKind::kTsv);
  const LineKind labelled = is_fast_text ? LineKind::kFastText : LineKind::kTsv;
  if (!counts.HasOnePercent(labelled)) return TextFormat::kPlain;
  return is_fast_text ? TextFormat::kFastText : TextFormat::kTsv;
}

std::optional<Contradiction> ContradictionOf(RecordFormat format, const HeadLines& head) {
  const KindCounts counts = Count(head);
  Contradiction found;
  for (size_t i = 0; i < head.lines.size(); ++i) {
    if (!IsContrary(format, KindOf(head.lines[i]), counts)) continue;
    if (found.lines++ == 0) found.first = i;
  }
  const bool is_single = found.lines == 1 && counts.lines > 1;
  if (is_single || 100 * found.lines <= counts.lines) return std::nullopt;
  return found;
}

}  // namespace dslide
