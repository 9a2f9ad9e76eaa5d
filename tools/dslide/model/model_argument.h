// How every command is told of a trained model: as an argument, by --model or by --checkpoint.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/app/command_line.h"
#include "common/base/error.h"

namespace dslide {

// Declares the argument and both options. `more`: what may follow MODEL, as "[WORD...]", and how
// much of it.
void DeclareModel(CommandLine* line, const std::string& more = "", size_t most_more = 0);

struct NamedModel {
  std::string path;                   // a run directory, a checkpoint or a model file
  std::span<const std::string> more;  // the other arguments; of the parsed ones
};
// Errors (kBadInput): no model is named, or more than one.
Result<NamedModel> ModelFrom(const ParsedArguments& arguments, size_t most_more = 0);

}  // namespace dslide
