// dslide status: shows the state of a running cluster. dslide worker status: what this user's lent
// workers on this machine do.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/app/executable.h"
#include "tools/dslide/cluster/lent_text.h"
#include "tools/dslide/cluster/observer.h"
#include "tools/dslide/cluster/status_text.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

// Width of the terminal; 0 if standard output is not a terminal.
size_t TerminalColumns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Status ShowStatus(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = SchedulerFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  Result<Observer> observer = Observer::Join(*scheduler, "dslide-status");
  DSLIDE_RETURN_IF_ERROR(observer);
  const Result<std::string> text = observer->StatusJson();
  DSLIDE_RETURN_IF_ERROR(text);
  if (arguments.Has("json")) {
    fmt::print("{}\n", *text);
    return {};
  }
  const auto status = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (status.is_discarded()) return Failed("the scheduler's status is not JSON");
  fmt::print("{}", StatusText(status, TerminalColumns()));
  return {};
}

Status ShowWorkers(const ParsedArguments& arguments) {
  const int64_t now = time(nullptr);
  const Result<LentWorkers> lent = ReadLentWorkers(now);
  DSLIDE_RETURN_IF_ERROR(lent);
  fmt::print("{}", arguments.Has("json") ? LentJson(*lent) + "\n" : LentText(*lent, now));
  return {};
}

int WorkerStatusCommand(int argc, char** argv) {
  CommandLine line("dslide worker status [--json]",
                   "Shows the lent workers of this user on this machine: whether each runs or "
                   "pauses and why, what it has done and may use.");
  line.Flag("json", "print JSON");
  return RunExecutable("dslide worker status", line, argc, argv, ShowWorkers);
}

constexpr Command kWorkerCommands[] = {
    {"status", WorkerStatusCommand, "show this user's lent workers on this machine"},
};

}  // namespace

int WorkerCommand(int argc, char** argv) {
  return RunCommand("dslide worker", kWorkerCommands, argc, argv);
}

int StatusCommand(int argc, char** argv) {
  CommandLine line("dslide status --scheduler ADDRESS [--json]",
                   "Shows a running cluster: its servers with their load and memory, its workers, "
                   "and the last decisions of the scheduler.");
  DeclareSchedulerOptions(&line);
  line.Flag("json", "print JSON, as /api/status of the status page");
  return RunExecutable("dslide status", line, argc, argv, ShowStatus);
}

}  // namespace dslide
