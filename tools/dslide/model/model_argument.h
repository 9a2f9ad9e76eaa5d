// How the user names a trained model to a command: by an argument, --model or --checkpoint.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/app/command_line.h"
#include "common/base/error.h"

namespace dslide {

// Declares the argument and both options. `more`: the arguments that may follow MODEL, as
// "[WORD...]"; `most_more`: their maximum number.
void DeclareModel(CommandLine* line, const std::string& more = "", size_t most_more = 0);

struct NamedModel {
  std::string path;                   // a run directory, a checkpoint or a model file
  std::span<const std::string> more;  // the other arguments; points into the parsed ones
};
// Errors (kBadInput): no model is named, or more than one.
Result<NamedModel> ModelFrom(const ParsedArguments& arguments, size_t most_more = 0);

}  // namespace dslide
