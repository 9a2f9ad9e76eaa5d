#include "common/text/records/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/data/csv_quotes.h"
#include "common/data/text_stream.h"
#include "common/text/records/label_taker.h"

namespace dslide {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

CsvField FieldOf(std::string_view cell, const FieldNames& names) {
  const std::string name = Lower(Trimmed(cell));
  if (name == Lower(names.title)) return CsvField::kTitle;
  if (name == Lower(names.text)) return CsvField::kText;
  if (name == Lower(names.labels)) return CsvField::kLabels;
  if (name == Lower(names.id)) return CsvField::kId;
  if (name == Lower(names.weight)) return CsvField::kWeight;
  // A field that text.fields does not rename has these names too.
  const FieldNames usual;
  if (names.labels == usual.labels && name == "label") return CsvField::kLabels;
  if (names.labels == usual.labels && name == "subject_uris") return CsvField::kUris;
  if (names.id == usual.id && name == "document_id") return CsvField::kId;
  return CsvField::kOther;
}

CsvColumns ColumnsOf(std::string_view header, char separator, const FieldNames& names) {
  CsvColumns columns;
  columns.separator = separator;
  const Result<std::vector<std::string>> cells = SplitCsv(header, separator);
  if (!cells.ok()) return columns;
  for (const std::string& cell : *cells) {
    const CsvField field = FieldOf(cell, names);
    const bool is_again = field != CsvField::kLabels && columns.Has(field);
    columns.fields.push_back(is_again ? CsvField::kOther : field);
  }
  return columns;
}

bool HasText(const CsvColumns& columns) {
  return columns.Has(CsvField::kText) || columns.Has(CsvField::kTitle);
}

}  // namespace

bool CsvColumns::Has(CsvField field) const { return std::ranges::count(fields, field) > 0; }

std::optional<CsvColumns> CsvColumns::Find(std::string_view header, const FieldNames& names) {
  for (const char separator : {',', ';'}) {
    CsvColumns columns = ColumnsOf(header, separator, names);
    const auto known = columns.fields.size() -
                       static_cast<size_t>(std::ranges::count(columns.fields, CsvField::kOther));
    if (HasText(columns) && known > 1) return columns;
  }
  return std::nullopt;
}

Result<CsvColumns> CsvColumns::Parse(std::string_view header, const FieldNames& names) {
  for (const char separator : {',', ';', '\t'}) {
    CsvColumns columns = ColumnsOf(header, separator, names);
    if (HasText(columns)) return columns;
  }
  return BadInput(fmt::format(
      "the header {} names no column '{}' or '{}' (text.fields = text:NAME gives another name)",
      Quoted(header), names.text, names.title));
}

std::optional<NearColumn> NearColumnOf(std::string_view line, const FieldNames& names) {
  const std::vector<std::string> fields = {"title", "text", "labels"};
  const std::vector<std::string> known = {Lower(names.title), Lower(names.text),
                                          Lower(names.labels)};
  const char separator = line.find(',') < line.size() ? ',' : ';';
  const Result<std::vector<std::string>> cells = SplitCsv(line, separator);
  if (!cells.ok() || cells->size() < 2) return std::nullopt;
  for (const std::string& cell : *cells) {
    if (FieldOf(cell, names) != CsvField::kOther) continue;
    const std::string* near = Nearest(Trimmed(Lower(cell)), known);
    if (near == nullptr) continue;
    return NearColumn{std::string(Trimmed(cell)), *near, fields[near - known.data()]};
  }
  return std::nullopt;
}

Result<std::vector<std::string>> SplitCsv(std::string_view record, char separator) {
  std::vector<std::string> cells(1);
  CsvQuotes quotes(separator);
  for (const char c : record) {
    switch (quotes.Next(c)) {
      case CsvQuotes::Byte::kText:
        if (c == '\n' && cells.back().ends_with('\r')) cells.back().pop_back();
        cells.back() += c;
        break;
      case CsvQuotes::Byte::kSeparator:
        cells.emplace_back();
        break;
      case CsvQuotes::Byte::kQuote:
        break;
    }
  }
  if (quotes.is_open()) return BadInput("a quote that opens is not closed");
  return cells;
}

}  // namespace dslide
