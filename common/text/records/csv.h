// Records in CSV with a header, by the rules of RFC 4180: a cell between quotes may have
// separators, doubled quotes and line ends. The separator is a comma, a semicolon or a tab, as the
// header has it.
//
// Columns have the fields' names (field_names.h), in any case; `label`, `subject_uris` and
// `document_id` are read too. `labels` may be there several times; a cell is one label, or a JSON
// list of them, and of `subject_uris` what blanks separate, with or without <>. Other columns are
// ignored.
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

  // The columns of a header that names a text or a title, and another field; nullopt: of none.
  static std::optional<CsvColumns> Find(std::string_view header, const FieldNames& names);
  // The columns of a file that the user or the model calls CSV: a text or a title is enough.
  static Result<CsvColumns> Parse(std::string_view header, const FieldNames& names);

  bool Has(CsvField field) const;
};

// The cells of a record. Errors describe the fault, not its place.
Result<std::vector<std::string>> SplitCsv(std::string_view record, char separator);

}  // namespace dslide
