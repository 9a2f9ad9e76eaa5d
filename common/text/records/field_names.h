// The names of a record's fields in JSON lines and in the header of CSV (text.fields):
//
//   title:headline,text:body,labels:tags
//
// renames three fields; the other fields are id and weight. In all formats of records
// `separator:;` splits a label at each ';' into several, and `separator:comma` at each ','.
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
  std::string separator;  // empty: labels are not split

  // Errors (kBadInput) name text.fields.
  static Result<FieldNames> Parse(std::string_view fields);
};

}  // namespace dslide
