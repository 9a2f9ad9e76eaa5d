#include "tools/dslide/model/format_options.h"

#include <fmt/format.h>

#include <string>

#include "common/base/nearest.h"
#include "common/config/config_keys.h"

namespace dslide {

void DeclareFormatOptions(CommandLine* line) {
  line->Option("format", "FORMAT",
               "of the file: " + FindConfigKey("text.format")->field.allowed_in_full);
  line->Option("fields", "FIELD:NAME,...", "names of fields in JSON and CSV (text.fields)");
}

Result<NamedFormat> NamedFormatFrom(const ParsedArguments& arguments) {
  NamedFormat named;
  if (arguments.Has("format")) {
    const std::string name = arguments.Get("format");
    named.format = TextFormatByName(name);
    if (!named.format) {
      return BadInput(fmt::format("--format {}: must be {}", Printable(name),
                                  FindConfigKey("text.format")->field.allowed_in_full));
    }
  }
  if (arguments.Has("fields")) {
    named.fields = arguments.Get("fields");
    const Result<FieldNames> names = FieldNames::Parse(*named.fields);
    if (!names.ok()) return BadInput("--fields: " + names.error().message);
  }
  return named;
}

Result<DataFormat> FormatFrom(const ParsedArguments& arguments) {
  const Result<NamedFormat> named = NamedFormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(named);
  return DataFormat{named->format.value_or(TextFormat::kRecords), named->fields.value_or("")};
}

void ApplyFormat(const NamedFormat& named, ModelInput* input) {
  if (!named.format && !named.fields) return;
  DataFormat format;
  if (input->preprocessor != nullptr) format = DataFormatOf(input->preprocessor->config());
  if (named.format) format.format = *named.format;
  if (named.fields) format.fields = *named.fields;
  format.is_model = !named.format;
  input->named = format;
}

}  // namespace dslide
