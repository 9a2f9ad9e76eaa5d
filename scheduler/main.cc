// dslide-scheduler: leases work, keeps the roster, coordinates checkpoints, reports progress.
#include <set>
#include <string>
#include <utility>

#include "common/app/executable.h"
#include "common/app/limits.h"
#include "common/config/config_keys.h"
#include "common/log/log.h"
#include "scheduler/scheduler_shell.h"

namespace dslide {
namespace {

Status Schedule(const ParsedArguments& arguments) {
  // A resumed run keeps the configuration that it was started with.
  Result<std::string> file = arguments.Get("config");
  const bool resume = Resumes(arguments);
  if (resume && file->empty()) file = StoredConfig(arguments.Get("run-dir"));
  DSLIDE_RETURN_IF_ERROR(file);
  const Result<Overrides> overrides = OverridesOf(arguments);
  DSLIDE_RETURN_IF_ERROR(overrides);
  Result<Config> config = LoadConfig(*file, *overrides);
  DSLIDE_RETURN_IF_ERROR(config);
  Result<std::set<std::string>> given = GivenKeys(*file, arguments.All("set"));
  DSLIDE_RETURN_IF_ERROR(given);
  DSLIDE_RETURN_IF_ERROR(CheckNotLent(*config));
  Result<uint32_t> memory_mb = 0;
  if (arguments.Has("server-memory-mb")) {
    memory_mb = arguments.Number("server-memory-mb", 1, kMostMemoryMb);
  }
  DSLIDE_RETURN_IF_ERROR(memory_mb);
  StopSignals signals;
  StartLog("scheduler", "", config->common.log_level);
  return SchedulerShell::Run(
      {std::move(*config), arguments.Get("run-dir"), resume, *memory_mb, std::move(*given)},
      &signals);
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line("dslide-scheduler --config FILE --run-dir DIRECTORY [options]",
                           "Leases work to workers, keeps the roster, coordinates checkpoints.");
  line.Required("run-dir", "DIRECTORY", "where the run's records and checkpoints go");
  dslide::DeclareDataOptions(&line);
  dslide::DeclareResumeOptions(&line);
  line.Option("server-memory-mb", "N",
              "what each of cluster.servers will have: refuse at once a model that does not fit");
  dslide::DeclareConfigOptions(&line);
  return dslide::RunExecutable("dslide-scheduler", line, argc, argv, dslide::Schedule);
}
