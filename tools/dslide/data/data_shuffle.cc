// dslide data shuffle: a file's samples in random order.
#include <fmt/core.h>

#include <string>

#include "common/app/executable.h"
#include "common/base/plural.h"
#include "tools/dslide/data/data_commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/data/progress_line.h"
#include "tools/dslide/data/sample_lines.h"
#include "tools/dslide/data/sample_writer.h"
#include "tools/dslide/data/shuffler.h"
#include "tools/dslide/model/format_options.h"

namespace dslide {
namespace {

Status Shuffle(const ParsedArguments& arguments) {
  const Result<std::string> path = InputPath(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(path);
  const std::string& input = *path;
  const std::string output = arguments.Get("output");
  const Result<uint32_t> seed = arguments.Number("seed", 0, 0xffffffffu);
  DSLIDE_RETURN_IF_ERROR(seed);
  const Result<uint32_t> memory_mb = arguments.Number("memory-mb", 1, 1u << 20);
  DSLIDE_RETURN_IF_ERROR(memory_mb);
  DSLIDE_RETURN_IF_ERROR(CheckOutputs({input}, {{"output", output}}));
  const Result<DataFormat> format = FormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(format);
  Result<SampleLines> lines = SampleLines::Open(input, *format);
  DSLIDE_RETURN_IF_ERROR(lines);
  Result<SampleWriter> writer = SampleWriter::Create(output, lines->file());
  DSLIDE_RETURN_IF_ERROR(writer);
  Shuffler shuffler(*seed, FilesOf(output)[0], size_t{*memory_mb} << 20);
  ProgressLine progress(input);
  uint64_t samples = 0;
  while (true) {
    const auto line = lines->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    DSLIDE_RETURN_IF_ERROR(shuffler.Add(**line));
    progress.Show(++samples);
  }
  DSLIDE_RETURN_IF_ERROR(shuffler.TakeAll([&](std::string_view line) {
    writer->Add(line);
    progress.Show(writer->samples());
  }));
  DSLIDE_RETURN_IF_ERROR(writer->Finish(lines->size()));
  fmt::print(MessagesBeside({output}), "{}: {}\n", output, Plural(writer->samples(), "sample"));
  return {};
}

}  // namespace

int DataShuffleCommand(int argc, char** argv) {
  CommandLine line("dslide data shuffle FILE --output FILE [--seed N]",
                   "Writes a file's samples in random order, in its format. Files larger than the "
                   "memory are\nshuffled by temporary files beside the output.");
  line.Positional("FILE", "a data file of any format, or X.npz,Y.npz; -: standard input", 1, 1);
  line.Required("output", "FILE",
                "where to write; compressed by its name (.gz, .zst); -: standard output");
  line.Option("seed", "N", "the order follows from it", "1");
  line.Option("memory-mb", "MB", "above it temporary files are used", "1024");
  DeclareFormatOptions(&line);
  return RunExecutable("dslide data shuffle", line, argc, argv, Shuffle);
}

}  // namespace dslide
