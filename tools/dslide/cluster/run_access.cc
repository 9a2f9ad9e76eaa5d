#include "tools/dslide/cluster/run_access.h"

#include <fmt/core.h>

#include <cstdio>

#include <optional>

#include "common/app/executable.h"
#include "common/security/run_place.h"
#include "tools/dslide/runs/found_run.h"

namespace dslide {
namespace {

// The address of a run that has ended is still there, and nobody answers. A scheduler that was
// killed may be started again at any moment, and one on another machine may hold a lock that is not
// seen here, so the address is dialled all the same.
Status CheckHasNotEnded(const std::string& directory) {
  if (HolderOf(directory).held) return {};
  const std::optional<FoundRun> run = FindRun(directory);
  if (!run) return {};
  if (run->kind == FoundRun::Kind::kFinished) {
    return BadInput(
        fmt::format("{}: the run has finished, and its scheduler with it; `dslide report {} "
                    "--output report.html` shows what it did",
                    directory, directory));
  }
  if (run->kind == FoundRun::Kind::kEnded) {
    fmt::print(stderr,
               "{}: no scheduler of this machine has its ledger open; asking its address. If the "
               "scheduler was killed, `dslide train --resume --run-dir {}` continues the run\n",
               directory, directory);
  }
  if (run->kind != FoundRun::Kind::kStopped) return {};
  return BadInput(
      fmt::format("{}: the run has ended early ({}); `dslide report {} --output report.html` shows "
                  "what it did, and --resume continues it",
                  directory, run->outcome, directory));
}

}  // namespace

void DeclareRunOptions(CommandLine* line, bool with_argument) {
  if (with_argument) {
    line->Positional("RUN", "run directory, or the scheduler's address, e.g. tcp://10.0.0.1:7700",
                     0, 1);
  }
  DeclareSchedulerOptions(line);
}

Result<SchedulerAccess> RunAccess(const std::string& place, const std::string& key_file,
                                  const std::string& role) {
  const Result<std::optional<RunPlace>> run = RunPlaceOf(place);
  DSLIDE_RETURN_IF_ERROR(run);
  if (run->has_value()) DSLIDE_RETURN_IF_ERROR(CheckHasNotEnded((*run)->directory));
  return AccessTo(place, key_file, role);
}

Result<SchedulerAccess> RunAccess(const ParsedArguments& arguments, const std::string& role,
                                  bool with_argument) {
  const Result<std::string> place = SchedulerPlace(arguments, with_argument);
  DSLIDE_RETURN_IF_ERROR(place);
  if (place->empty() && !arguments.Has("key") && !HasJoinVariable()) {
    return BadInput(
        fmt::format("no run is given: name {}a run directory or an address by "
                    "--scheduler, or give --key FILE",
                    with_argument ? "its directory, " : ""));
  }
  return RunAccess(*place, arguments.Get("key"), role);
}

}  // namespace dslide
