// dslide data split: divides a file into two parts, duplicates never between them.
#include <fmt/core.h>

#include <charconv>
#include <string>

#include "common/app/executable.h"
#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/base/random.h"
#include "tools/dslide/data/data_commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/data/progress_line.h"
#include "tools/dslide/data/sample_lines.h"
#include "tools/dslide/data/sample_writer.h"
#include "tools/dslide/model/format_options.h"

namespace dslide {
namespace {

Result<double> ShareFrom(const ParsedArguments& arguments) {
  const std::string text = arguments.Get("share");
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || !(share > 0 && share < 1)) {
    return BadInput(
        fmt::format("--share {}: must be a number between 0 and 1, such as 0.1", Printable(text)));
  }
  return share;
}

Status Split(const ParsedArguments& arguments) {
  const Result<std::string> path = InputPath(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(path);
  const std::string& input = *path;
  const Result<double> share = ShareFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(share);
  const Result<uint32_t> seed = arguments.Number("seed", 0, 0xffffffffu);
  DSLIDE_RETURN_IF_ERROR(seed);
  const std::string part_path = arguments.Get("part");
  const std::string rest_path = arguments.Get("rest");
  DSLIDE_RETURN_IF_ERROR(CheckOutputs({input}, {{"part", part_path}, {"rest", rest_path}}));
  const Result<DataFormat> format = FormatFrom(arguments);
  DSLIDE_RETURN_IF_ERROR(format);
  Result<SampleLines> lines = SampleLines::Open(input, *format);
  DSLIDE_RETURN_IF_ERROR(lines);
  Result<SampleWriter> part = SampleWriter::Create(part_path, lines->file());
  DSLIDE_RETURN_IF_ERROR(part);
  Result<SampleWriter> rest = SampleWriter::Create(rest_path, lines->file());
  DSLIDE_RETURN_IF_ERROR(rest);
  ProgressLine progress(input);
  while (true) {
    const auto line = lines->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    // One draw, which is a function of the content.
    const bool is_part = Random(SubSeed(*seed, lines->Hash())).Uniform() < *share;
    (is_part ? *part : *rest).Add(**line);
    progress.Show(part->samples() + rest->samples());
  }
  DSLIDE_RETURN_IF_ERROR(lines->unreadable().Check());
  DSLIDE_RETURN_IF_ERROR(part->Finish(lines->size()));
  DSLIDE_RETURN_IF_ERROR(rest->Finish(lines->size()));
  const double all = static_cast<double>(part->samples() + rest->samples());
  fmt::print(MessagesBeside({part_path, rest_path}), "{}: {} ({:.1f} %)\n{}: {}\n", part_path,
             Plural(part->samples(), "sample"),
             all > 0 ? 100.0 * static_cast<double>(part->samples()) / all : 0, rest_path,
             Plural(rest->samples(), "sample"));
  return {};
}

}  // namespace

int DataSplitCommand(int argc, char** argv) {
  CommandLine line(
      "dslide data split FILE --share SHARE --part FILE --rest FILE [--seed N]",
      "Divides a file into two of its format. A sample's place follows from its text or features, "
      "so\nthat equal ones come into the same file. Outputs are compressed by their names "
      "(.gz, .zst).");
  line.Positional("FILE", "a data file of any format, or X.npz,Y.npz; -: standard input", 1, 1);
  line.Required("share", "SHARE", "share of the samples that --part gets, such as 0.1");
  line.Required("part", "FILE", "where they go; -: standard output");
  line.Required("rest", "FILE", "where the others go");
  line.Option("seed", "N", "another seed draws others", "1");
  DeclareFormatOptions(&line);
  return RunExecutable("dslide data split", line, argc, argv, Split);
}

}  // namespace dslide
