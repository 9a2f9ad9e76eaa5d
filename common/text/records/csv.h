// Records in CSV with a header, by the rules of RFC 4180: a cell between quotes may have
// separators, doubled quotes and line ends. The separator is the header's: a comma, a
// semicolon or a tab.
//
// Columns have the fields' names (field_names.h), in any case; `label`, `subject_uris` and
// `document_id` are read too. There may be several columns `labels`; a cell is one label or a
// JSON list of labels. A cell of `subject_uris` has URIs between blanks, with or without <>. Other
// columns are ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/text/records/field_names.h"

namespace dslide {

enum class CsvField { kOther, kTitle, kText, kLabels, kUris, kId, kWeight };

struct CsvColumns {
  char separator = ',';
  std::vector<CsvField> fields;  // by column

  // The columns of `header` if it names a text or a title and another field; else nullopt.
  static std::optional<CsvColumns> Find(std::string_view header, const FieldNames& names);
  // The columns of a file that the user or the model calls CSV: a column of text or title suffices.
  static Result<CsvColumns> Parse(std::string_view header, const FieldNames& names);

  bool Has(CsvField field) const;
};

// A cell of a line that differs from a column's name by a letter or two, as misspelt headers have.
struct NearColumn {
  std::string cell;
  std::string expected;  // the column's name
  std::string field;     // as text.fields calls it
};
// The first such cell, or nullopt. The line is split at commas or semicolons.
std::optional<NearColumn> NearColumnOf(std::string_view line, const FieldNames& names);

// The cells of a record. Errors describe the fault, not its place.
Result<std::vector<std::string>> SplitCsv(std::string_view record, char separator);

}  // namespace dslide
