// One sample as users have it: text and label names. The formats of its line.
//
//   JSON lines   {"text": "...", "labels": ["name", ...], "id": "..."}
//                `text` is a string, or a list of fields, the title first. `labels` has names or
//                numbers, which are names too; one may stand without a list. Other keys are
//                ignored.
//   fastText     words __label__name words          anywhere in the line
//   TSV          text TAB label [TAB label ...]     or text TAB <uri> <uri> ... (Annif)
//
// The format is recognised by the first line that is not blank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace dslide {

enum class RecordFormat { kJsonLines, kFastText, kTsv };

// "JSON lines", ...
std::string_view NameOf(RecordFormat format);

// The format of a file with this first line that is not blank; nullopt: none of these.
std::optional<RecordFormat> RecordFormatOf(std::string_view line);

struct Record {
  std::string id;                   // "" if the line has none
  std::vector<std::string> fields;  // texts; the first is the title if there are several
  std::vector<std::string> labels;  // names, each once
};

// The first line of a text is its title. A text of one line has no title.
std::vector<std::string> FieldsOf(std::string_view text);

// Errors are kBadInput and describe the fault, not its place.
Result<Record> ParseRecord(RecordFormat format, std::string_view line);

}  // namespace dslide
