// One sample as users have it: text and label names. The formats of its line.
//
//   JSON lines   {"title": "...", "text": "...", "labels": ["name", ...]}
//                `text` is a string, or a list of fields, the title first; `title` or `text` may be
//                missing. `labels` has names or numbers, which are names too; one may stand without
//                a list. By an `id`, if there is one, predictions name the
//                sample. A `weight` multiplies the sample's loss in training.
//                Other keys are ignored, and so is a member that is null. As Annif has them,
//                labels may be objects with "uri" or "label", and the keys "subjects" and
//                "document_id".
//   fastText     words __label__name words          anywhere in the line
//   TSV          text TAB label [TAB label ...]     or text TAB <uri> <uri> ... (Annif)
//   CSV          columns of a header                csv.h
//   plain text   words                              without labels
//
// Keys of JSON may have other names (field_names.h). Tabs, line ends and other control characters
// within a label's name become spaces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/text/records/csv.h"
#include "common/text/records/field_names.h"
#include "common/text/records/record_format.h"

namespace dslide {

struct Record {
  std::vector<std::string> fields;  // texts; the first is the title if there are several
  std::vector<std::string> labels;  // names, each once
  std::string id = {};              // as JSON; empty: there is none
  float weight = 1.0f;              // of its loss, IsSampleWeight()
  bool labels_cleaned = false;      // control characters in their names became spaces
  std::string near_key = {};        // a key similar to "labels" in JSON that lacks it
};

// The first line of a text, and the rest. A text of one line is one field.
std::vector<std::string> FieldsOf(std::string_view text);

// Whether a word of the line is a label of fastText.
bool HasFastTextLabel(std::string_view line);

// The rules by which lines of a file are read as records.
struct RecordRules {
  RecordRules(RecordFormat f) : format(f) {}  // with the fields' usual names

  RecordFormat format;
  FieldNames fields = {};
  CsvColumns columns = {};  // of CSV
};

// Lines are UTF-8. Errors are kBadInput and describe the fault, not its place. A blank line is a
// sample without text, except in JSON lines, where it is an error.
Result<Record> ParseRecord(const RecordRules& rules, std::string_view line);

}  // namespace dslide
