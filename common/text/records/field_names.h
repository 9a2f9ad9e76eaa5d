// How the fields of a record are called in JSON lines and in the header of CSV (text.fields):
//
//   title:headline,text:body,labels:tags
//
// gives three fields other names; id and weight are the others. `separator:;` divides a label at
// each ';' into several, of JSON lines, CSV and TSV; `separator:comma` at each ','.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

struct FieldNames {
  std::string title = "title";
  std::string text = "text";
  std::string labels = "labels";
  std::string id = "id";
  std::string weight = "weight";
  std::string separator;  // empty: a label is one

  // Errors (kBadInput) name text.fields.
  static Result<FieldNames> Parse(std::string_view fields);
};

}  // namespace dslide
