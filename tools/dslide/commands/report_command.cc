// dslide report: an HTML page of what runs have left in their directories.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "common/data/output_file.h"
#include "scheduler/status/report_page.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/report/run_directory.h"

namespace dslide {
namespace {

constexpr size_t kMostRuns = 16;  // that a reader can tell apart

// Runs of one name get their paths as names.
void TellApart(const std::vector<std::string>& paths, nlohmann::ordered_json* runs) {
  std::multiset<std::string> names;
  for (const auto& run : *runs) names.insert(run["name"].get<std::string>());
  for (size_t i = 0; i < paths.size(); ++i) {
    auto& name = (*runs)[i]["name"];
    if (names.count(name.get<std::string>()) > 1) name = paths[i];
  }
}

Status Report(const ParsedArguments& arguments) {
  const std::vector<std::string>& paths = arguments.Positional();
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const std::string& path : paths) {
    Result<nlohmann::ordered_json> run = ReadRunDirectory(path);
    DSLIDE_RETURN_IF_ERROR(run);
    runs.push_back(std::move(*run));
  }
  TellApart(paths, &runs);
  const std::string output = arguments.Get("output");
  if (output.empty()) return BadInput("--output: names no file");
  std::vector<std::string> read;
  for (const std::string& path : paths) {
    for (std::string& file : FilesOfRun(path)) read.push_back(std::move(file));
  }
  DSLIDE_RETURN_IF_ERROR(CheckOutputs(read, {{"output", output}}));
  Result<OutputFile> file = OutputFile::Create(output);
  DSLIDE_RETURN_IF_ERROR(file);
  file->Write(ReportPage(runs));
  DSLIDE_RETURN_IF_ERROR(file->Finish());
  fmt::print(MessagesBeside({output}), "{}\n", output);
  return {};
}

}  // namespace

int ReportCommand(int argc, char** argv) {
  CommandLine line("dslide report RUN [RUN ...] --output FILE",
                   "Writes an HTML page with the curves, results, configuration and checkpoints of "
                   "a run; of\nseveral runs, a comparison. A run may still be going on. The page "
                   "needs no other file and no\nnetwork.");
  line.Positional("RUN", "a run directory", 1, kMostRuns);
  line.Required("output", "FILE", "the page to write");
  return RunExecutable("dslide report", line, argc, argv, Report);
}

}  // namespace dslide
