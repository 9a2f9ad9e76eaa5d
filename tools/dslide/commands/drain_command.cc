// dslide run drain: a server hands its slots to the others and leaves.
#include <fmt/core.h>

#include <cstdio>

#include "common/app/executable.h"
#include "tools/dslide/cluster/drain.h"
#include "tools/dslide/cluster/run_access.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

Status DrainNamed(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = RunAccess(arguments, "operator", false);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  Result<Observer> observer = Observer::Join(*scheduler, "dslide-drain");
  DSLIDE_RETURN_IF_ERROR(observer);
  return Drain(*observer, arguments.Positional()[0], [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);  // a pipe, too, shows each line at once
  });
}

}  // namespace

int DrainCommand(int argc, char** argv) {
  CommandLine line("dslide run drain NAME --scheduler ADDRESS|RUN",
                   "Moves the slots of a server to the other servers while training goes on, and "
                   "waits until the server has left. dslide status lists the names.");
  line.Positional("NAME", "name of the server", 1, 1);
  DeclareRunOptions(&line, false);
  return RunExecutable("dslide run drain", line, argc, argv, DrainNamed);
}

int OldDrainCommand(int argc, char** argv) {
  return RunOldName("dslide drain", "dslide run drain", DrainCommand, argc, argv);
}

}  // namespace dslide
