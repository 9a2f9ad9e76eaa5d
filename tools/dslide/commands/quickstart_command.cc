// dslide quickstart: training, evaluation and prediction with the data that comes with the project.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "common/app/executable.h"
#include "tools/dslide/cluster/child_process.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// What the data is a part of.
constexpr const char* kWholeCollection =
    "(trained on all 90,452 records of the collection: P@1 56.7 on its 26,168 test records)";

// Where an installation has the data, or a build directory in the repository. Errors (kBadInput)
// name the places.
Result<std::string> DataDirectory() {
  const fs::path executables = ExecutableDirectory();
  const fs::path places[] = {executables / "../share/dslide/data/gnd-subset",
                             executables / "../../../tools/data/gnd-subset"};
  for (const fs::path& place : places) {
    if (fs::exists(place / "train.jsonl.zst")) return fs::canonical(place).string();
  }
  return BadInput(fmt::format("the data is in neither {} nor {}; install the whole package",
                              places[0].lexically_normal().string(),
                              places[1].lexically_normal().string()));
}

std::string NewRunDirectory() {
  for (int n = 1;; ++n) {
    std::string candidate = fmt::format("runs/quickstart-{}", n);
    if (!fs::exists(candidate)) return candidate;
  }
}

int Call(int (*command)(int, char**), std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  return command(static_cast<int>(arguments.size()), argv.data());
}

// The exit code of the command that failed, which has said why; 0: none.
int RunAll(const std::string& data, const std::string& run_directory, bool resume) {
  const std::string train = data + "/train.jsonl.zst", test = data + "/test.jsonl.zst";
  fmt::print("training on {} (library records -> subjects, see its README.md)\n", data);
  std::vector<std::string> training = {"train",
                                       "--servers",
                                       "2",
                                       "--workers",
                                       "2",
                                       "--run-dir",
                                       run_directory,
                                       "--set",
                                       "train.data=" + train,
                                       "--set",
                                       "train.test=" + test,
                                       "--set",
                                       "train.epochs=8",
                                       "--set",
                                       "cluster.executors=1"};
  if (resume) training.push_back("--resume");
  int status = Call(TrainCommand, std::move(training));
  if (status == ExitCode(ErrorKind::kPreempted)) {
    fmt::print("to continue: dslide quickstart --resume --run-dir {}\n", run_directory);
  }
  if (status != 0) return status;
  fmt::print(
      "{}\n\n"
      "three test samples, and the model on all of them; it is measured here without the "
      "network's\n"
      "rounding (cluster.wire), so a tenth of a point more or less than above\n",
      kWholeCollection);
  status = Call(EvaluateCommand,
                {"evaluate", "--checkpoint", run_directory, "--data", test, "--show", "3"});
  if (status != 0) return status;
  const std::string predictions = run_directory + "/predictions.txt";
  status = Call(PredictCommand, {"predict", "--checkpoint", run_directory, "--data", test,
                                 "--output", predictions});
  if (status != 0) return status;
  fmt::print(
      "\nin {}:\n"
      "  run directory  {}\n"
      "  predictions    {}\n",
      fs::current_path().string(), run_directory, predictions);
  return 0;
}

}  // namespace

int QuickstartCommand(int argc, char** argv) {
  CommandLine line(
      "dslide quickstart [--run-dir DIRECTORY [--resume]]",
      "Trains on the data that comes with D-SLIDE with two servers and two workers on "
      "this machine, measures the model, and writes its predictions: a minute or two.");
  line.Option("run-dir", "DIRECTORY", "where the run's files go; runs/quickstart-N if not given");
  line.Flag("resume", "go on with the training of --run-dir, which was stopped");
  int status = 0;
  const int asked = RunExecutable(
      "dslide quickstart", line, argc, argv, [&](const ParsedArguments& arguments) -> Status {
        const Result<std::string> data = DataDirectory();
        DSLIDE_RETURN_IF_ERROR(data);
        if (arguments.Has("resume") && !arguments.Has("run-dir")) {
          return BadInput("--resume needs --run-dir, the run to go on with");
        }
        status =
            RunAll(*data, arguments.Has("run-dir") ? arguments.Get("run-dir") : NewRunDirectory(),
                   arguments.Has("resume"));
        return {};
      });
  return asked != 0 ? asked : status;
}

}  // namespace dslide
