// dslide-worker: trains leased batches against the servers; holds no parameters.
#include "common/app/executable.h"
#include "common/base/log.h"
#include "worker/worker_shell.h"

namespace dslide {
namespace {

Status Work(const ParsedArguments& arguments) {
  StopSignals signals;
  const std::string name = arguments.Get("name");
  StartLog(name.empty() ? "worker" : name, "info");
  Result<SchedulerAccess> scheduler = SchedulerFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  return WorkerShell::Run({*std::move(scheduler), name, arguments.Get("data")}, &signals);
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line(
      "dslide-worker (--scheduler ADDRESS | --key FILE) [--name NAME] [--data FILE]",
      "Trains batches for a cluster. Everything else comes from the scheduler.");
  dslide::DeclareSchedulerOptions(&line);
  line.Option("name", "NAME", "name in the roster");
  line.Option(
      "data", "FILE",
      "the training file, if it is on this machine too: the scheduler then sends no samples");
  return dslide::RunExecutable("dslide-worker", line, argc, argv, dslide::Work);
}
