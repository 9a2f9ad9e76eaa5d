// --format and --fields, for every command that reads a data file.
#pragma once

#include <optional>

#include "common/app/command_line.h"
#include "common/base/error.h"
#include "common/text/records/record_format.h"
#include "common/text/samples.h"

namespace dslide {

void DeclareFormatOptions(CommandLine* line);
// Errors (kBadInput) name the option.
Result<DataFormat> FormatFrom(const ParsedArguments& arguments);

// The options for a file that a model reads. An option that is not given has the value of the
// training data.
struct NamedFormat {
  std::optional<TextFormat> format;
  std::optional<std::string> fields;
};
Result<NamedFormat> NamedFormatFrom(const ParsedArguments& arguments);
// Applies the options to the input. REQUIRES the preprocessor, if the model has one.
void ApplyFormat(const NamedFormat& named, ModelInput* input);

}  // namespace dslide
