#include "common/text/records/field_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/data/text_stream.h"

namespace dslide {
namespace {

Error Wrong(std::string_view fields, std::string_view why) {
  return BadInput(fmt::format(
      "text.fields = {}: {} (expected FIELD:NAME pairs separated by commas; FIELD is title, text, "
      "labels, id, weight or separator)",
      Quoted(fields), why));
}

}  // namespace

Result<FieldNames> FieldNames::Parse(std::string_view fields) {
  FieldNames names;
  const struct {
    std::string_view field;
    std::string* name;
  } known[] = {{"title", &names.title}, {"text", &names.text},     {"labels", &names.labels},
               {"id", &names.id},       {"weight", &names.weight}, {"separator", &names.separator}};
  for (std::string_view rest = fields; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const size_t colon = part.find(':');
    const auto* found = std::ranges::find_if(
        known, [&](const auto& k) { return k.field == part.substr(0, colon); });
    if (colon == std::string_view::npos || found == std::end(known)) {
      return Wrong(fields, Quoted(part) + " is not a valid pair");
    }
    if (colon + 1 == part.size()) return Wrong(fields, Quoted(part) + " has no name");
    *found->name = part.substr(colon + 1);
  }
  if (names.separator == "comma") names.separator = ",";
  if (names.separator.size() > 1) return Wrong(fields, "the separator is one character or comma");
  for (const auto& one : known) {
    for (const auto& other : known) {
      if (&one < &other && other.name != &names.separator && *one.name == *other.name) {
        return Wrong(fields, fmt::format("{} and {} have one name", one.field, other.field));
      }
    }
  }
  return names;
}

}  // namespace dslide
