#include "tools/dslide/model/model_argument.h"

#include <fmt/core.h>

#include "common/base/nearest.h"

namespace dslide {
namespace {

constexpr const char* kOptions[] = {"model", "checkpoint"};

}  // namespace

void DeclareModel(CommandLine* line, const std::string& more, size_t most_more) {
  line->Positional(more.empty() ? "MODEL" : "MODEL " + more,
                   "a run directory, whose newest checkpoint counts, a checkpoint, or a file by "
                   "`dslide export`",
                   0, 1 + most_more);
  for (const char* option : kOptions) line->Option(option, "MODEL", "the same as the argument");
}

Result<NamedModel> ModelFrom(const ParsedArguments& arguments, size_t most_more) {
  NamedModel model;
  model.more = arguments.Positional();
  for (const char* option : kOptions) {
    if (!arguments.Has(option)) continue;
    if (!model.path.empty()) return BadInput("--model and --checkpoint are one option; give one");
    model.path = arguments.Get(option);
  }
  const bool by_option = !model.path.empty();
  if (!by_option && model.more.empty()) {
    return BadInput(
        "no model is given: name a run directory, a checkpoint or a file by `dslide export`, as an "
        "argument or by --model");
  }
  if (!by_option) {
    model.path = model.more.front();
    model.more = model.more.subspan(1);
  }
  if (model.more.size() <= most_more) return model;
  return BadInput(fmt::format("unexpected argument {}; the model is {}",
                              Printable(model.more[most_more]), model.path));
}

}  // namespace dslide
