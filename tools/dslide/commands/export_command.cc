// dslide export: a trained model as one file.
#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "common/app/executable.h"
#include "common/model/model_file.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/model/model_source.h"

namespace dslide {
namespace {

Status Export(const ParsedArguments& arguments) {
  const std::string to = arguments.Get("to");
  const std::string rows = arguments.Get("rows");
  if (rows != "bf16" && rows != "int8") {
    return BadInput(fmt::format("--rows {}: must be bf16 or int8", rows));
  }
  ModelSourceOptions options;
  options.int8_only = rows == "int8";
  options.data = arguments.Get("data");
  options.say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const auto start = std::chrono::steady_clock::now();
  const auto model = LoadModel(arguments.Positional().front(), options);
  DSLIDE_RETURN_IF_ERROR(model);
  DSLIDE_RETURN_IF_ERROR(WriteModelFile(**model, to));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(stderr, "{}: {} MB in {:.1f} s\n", to, std::filesystem::file_size(to) >> 20, seconds);
  return {};
}

}  // namespace

int ExportCommand(int argc, char** argv) {
  CommandLine line("dslide export MODEL --to FILE [options]",
                   "Writes a trained model as one file, for `dslide serve`, predict and Python.");
  line.Positional("MODEL", "a run directory, a checkpoint, or a model file", 1, 1);
  line.Required("to", "FILE", "where to write");
  line.Option("rows", "bf16|int8", "precision of the neurons; int8: a third of the size", "bf16");
  line.Option("data", "FILE",
              "samples that the index is measured on; default: those of the run's train.test");
  return RunExecutable("dslide export", line, argc, argv, Export);
}

}  // namespace dslide
