// dslide tune: good settings by successive halving in a time budget.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/app/config_paths.h"
#include "common/app/executable.h"
#include "common/app/limits.h"
#include "common/app/run_directory.h"
#include "common/base/nearest.h"
#include "common/config/config_fields.h"
#include "common/config/stored_config.h"
#include "common/data/numbers/number_file.h"
#include "common/data/text_stream.h"
#include "common/data/whole_file.h"
#include "common/text/records/record_file.h"
#include "common/text/tokens.h"
#include "tools/dslide/cluster/given_once.h"
#include "tools/dslide/cluster/launcher.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/data/data_paths.h"
#include "tools/dslide/tune/tuner.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kMostMinutes = 60 * 24 * 30;

// fputs, because a closed pipe behind standard output must not end the tuning.
void Say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputs("\n", stdout);
  std::fflush(stdout);
}

// Whole numbers that were given replace those of the task.
Status ReadNumbers(const ParsedArguments& arguments, TuneTask* task) {
  struct Option {
    const char* name;
    uint32_t min, max;
    uint32_t* value;
  };
  for (const Option& option : {Option{"minutes", 1, kMostMinutes, &task->minutes},
                               Option{"candidates", 2, kMostCandidates, &task->candidates},
                               Option{"servers", 1, kMostStartedServers, &task->servers},
                               Option{"workers", 1, kMostStartedWorkers, &task->workers}}) {
    if (!arguments.Has(option.name)) continue;
    const Result<uint32_t> number = arguments.Number(option.name, option.min, option.max);
    DSLIDE_RETURN_IF_ERROR(number);
    *option.value = *number;
  }
  if (!arguments.Has("seed")) return {};
  const std::optional<uint64_t> seed = ParseNumber<uint64_t>(arguments.Get("seed"));
  if (!seed) {
    return BadInput(fmt::format("--seed {}: must be a whole number, 0 or more",
                                Printable(arguments.Get("seed"))));
  }
  task->seed = *seed;
  return {};
}

// What was given replaces what `task` has.
Status ReadOptions(const ParsedArguments& arguments, TuneTask* task) {
  DSLIDE_RETURN_IF_ERROR(ReadNumbers(arguments, task));
  if (arguments.Has("search")) task->searches = arguments.All("search");
  if (!arguments.Has("measure")) return {};
  task->measure = arguments.Get("measure");
  if (std::ranges::count(MeasureNames(), task->measure) > 0) return {};
  return BadInput(
      fmt::format("--measure {}: must be {}", Printable(task->measure), JoinWords(MeasureNames())));
}

// Whether the file can be opened and begins a known format; the trials read the rest.
Status CheckBeginning(const std::string& path, const TextConfig& text) {
  if (IsOfTokens(text)) {
    const Result<TextStream> stream = OpenTokenFile(path);
    DSLIDE_RETURN_IF_ERROR(stream);
    return {};
  }
  if (const auto matrices = MatrixPathsOf(path)) {
    const Result<NumberFile> file = NumberFile::OpenMatrices(*matrices);
    DSLIDE_RETURN_IF_ERROR(file);
    return {};
  }
  Result<RecordFile::Opened> opened = RecordFile::TryOpen(path, DataFormatOf(text));
  DSLIDE_RETURN_IF_ERROR(opened);
  if (opened->records) return {};
  if (opened->format == TextFormat::kPlain) {
    return UnknownFormat(path, opened->first_line, opened->names);
  }
  const Result<NumberFile> numbers = opened->Numbers();
  DSLIDE_RETURN_IF_ERROR(numbers);
  return {};
}

Status CheckData(const Config& config) {
  const TrainConfig& train = config.train;
  if (train.data.empty()) {
    return BadInput("train.data is empty: name the training file by --data FILE");
  }
  for (const auto& [key, path] :
       {std::pair("train.data", train.data), {"train.test", train.test}}) {
    if (path != "-" && !IsReadOnce(path)) continue;
    return BadInput(fmt::format(
        "{} = {}: is read once, but each trial reads it; write it to a file and name that", key,
        path));
  }
  DSLIDE_RETURN_IF_ERROR(CheckBeginning(train.data, config.text));
  if (!train.test.empty()) return CheckBeginning(train.test, config.text);
  return BadInput(fmt::format(
      "train.test is empty: settings are compared on samples that are not trained on; divide the "
      "training file (dslide data split {} --share 0.1 --part dev.jsonl --rest train.jsonl, say) "
      "and name the small part by --test FILE",
      train.data));
}

Result<TuneTask> NewTask(const ParsedArguments& arguments) {
  TuneTask task;
  Config launched;
  launched.cluster.scheduler_bind = kLaunchedBind;
  const Result<Overrides> overrides = OverridesOf(arguments);
  DSLIDE_RETURN_IF_ERROR(overrides);
  Result<Config> config = LoadConfig(arguments.Get("config"), *overrides, std::move(launched));
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckNotLent(*config));
  task.base = std::move(*config);
  task.servers = task.base.cluster.servers;
  task.workers = task.base.cluster.workers;
  DSLIDE_RETURN_IF_ERROR(
      CheckGivenOnce(arguments, {{"servers", "cluster.servers"}, {"workers", "cluster.workers"}}));
  DSLIDE_RETURN_IF_ERROR(ReadOptions(arguments, &task));
  if (task.workers == 0) return BadInput("cluster.workers = 0: a trial needs one at least");
  DSLIDE_RETURN_IF_ERROR(CheckData(task.base));
  MakePathsAbsolute(&task.base);
  task.base.cluster.servers = task.servers;
  task.base.cluster.workers = task.workers;
  return task;
}

// The stored task. Only the time may change: the trials that are done answer to the same questions.
Result<TuneTask> StoredTask(const ParsedArguments& arguments, const std::string& directory) {
  const std::string path = directory + "/tune.json";
  std::error_code error;
  if (!fs::exists(path, error)) {
    return BadInput(fmt::format(
        "--resume: {} holds no tuning (it has no tune.json); begin one without --resume",
        directory));
  }
  const Result<std::string> text = ReadWholeFile(path);
  DSLIDE_RETURN_IF_ERROR(text);
  Result<TuneTask> task = ParseTask(*text, path);
  DSLIDE_RETURN_IF_ERROR(task);
  const Result<std::string> base_text = ReadWholeFile(directory + "/base.ini");
  DSLIDE_RETURN_IF_ERROR(base_text);
  Result<Config> base = ParseStoredConfig(*base_text, directory + "/base.ini");
  DSLIDE_RETURN_IF_ERROR(base);
  task->base = std::move(*base);
  TuneTask asked = *task;
  DSLIDE_RETURN_IF_ERROR(ReadOptions(arguments, &asked));
  const auto given = [&](const char* option) { return arguments.Has(option); };
  constexpr const char* kConfiguring[] = {"config", "set", "data", "test", "format", "fields"};
  if (std::ranges::any_of(kConfiguring, given)) {
    Result<TuneTask> again = NewTask(arguments);
    DSLIDE_RETURN_IF_ERROR(again);
    again->base.cluster.servers = asked.servers;
    again->base.cluster.workers = asked.workers;
    asked.base = again->base;
  }
  task->minutes = asked.minutes;
  if (TaskText(asked) == TaskText(*task) && asked.base == task->base) return task;
  return BadInput(fmt::format(
      "--resume: the tuning in {} began with other options or another configuration; leave them "
      "out (only --minutes may change), or begin another one in another --run-dir",
      directory));
}

Status Tune(const ParsedArguments& arguments) {
  const bool resume = arguments.Has("resume");
  std::string directory = arguments.Get("run-dir");
  if (directory.empty() && resume) {
    return BadInput("--resume needs --run-dir, the tuning to go on with");
  }
  if (!directory.empty()) DSLIDE_RETURN_IF_ERROR(CheckRunDirectory(directory));
  const Result<TuneTask> task = resume ? StoredTask(arguments, directory) : NewTask(arguments);
  DSLIDE_RETURN_IF_ERROR(task);
  for (int n = 1; directory.empty(); ++n) {
    const std::string candidate = fmt::format("runs/tune-{}", n);
    if (!fs::exists(candidate)) directory = candidate;
  }
  StopSignals signals;
  return Tuner(*task, directory, Say).Run(resume, &signals);
}

}  // namespace

int TuneCommand(int argc, char** argv) {
  CommandLine line(
      "dslide tune --data FILE --test FILE [options]",
      "Finds good settings by successive halving: many candidates are trained for a few epochs, "
      "the\n"
      "best third of them three times as long, and so on. The configuration that was given is one\n"
      "of them. Leaves the best model, and the settings that reproduce it in RUN/best.ini. "
      "Measure\n"
      "it on a third file: the best of many figures on train.test is a little too good.");
  DeclareDataOptions(&line);
  line.Option("minutes", "N", "the time that it may take", "30");
  line.Option("run-dir", "DIRECTORY", "where its files go; runs/tune-N if not given");
  line.Repeated("search", "KEY=A,B,...", "try these only; a learning rate may be 0.5x");
  line.Option("measure", "NAME", "what decides: {p,ndcg,psp}_at_{1,3,5}", "p_at_1");
  line.Option("candidates", "N", "candidates at most", "81");
  line.Option("seed", "N", "another seed draws other candidates", "1");
  line.Option("servers", "N", "servers of a run (cluster.servers)");
  line.Option("workers", "M", "workers of a run (cluster.workers)");
  line.Flag("resume", "go on with the tuning of --run-dir");
  DeclareConfigOptions(&line);
  return RunExecutable("dslide tune", line, argc, argv, Tune);
}

}  // namespace dslide
