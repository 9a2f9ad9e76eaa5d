#include "tools/dslide/cluster/run_access.h"

#include <fmt/core.h>

#include <filesystem>

#include "tools/dslide/runs/found_run.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kAddressName[] = "scheduler.address";

// The address of a run that has ended is still there, and nobody answers. A scheduler that was
// killed may be started again at any moment.
Status CheckHasNotEnded(const std::string& directory) {
  if (HolderOf(directory).held) return {};
  const std::optional<FoundRun> run = FindRun(directory);
  if (!run) return {};
  if (run->kind == FoundRun::Kind::kFinished) {
    return BadInput(
        fmt::format("{}: the run has finished, and its scheduler with it; `dslide report {}` shows "
                    "what it did",
                    directory, directory));
  }
  if (run->kind != FoundRun::Kind::kStopped) return {};
  return BadInput(
      fmt::format("{}: the run has ended early ({}); `dslide report {}` shows what it did, and "
                  "--resume goes on with it",
                  directory, run->outcome, directory));
}

}  // namespace

void DeclareRunOptions(CommandLine* line, bool with_argument) {
  if (with_argument) {
    line->Positional("RUN", "run directory, or the scheduler's address, e.g. tcp://10.0.0.1:7700",
                     0, 1);
  }
  line->Option("scheduler", "ADDRESS",
               "address of the scheduler, a join string, or a run directory");
  line->Option("key", "FILE", "key file, as the scheduler makes them in RUN/keys");
}

Result<SchedulerAccess> RunAccess(const std::string& place, const std::string& key_file,
                                  const std::string& role) {
  std::error_code error;
  fs::path directory = place;
  if (fs::is_regular_file(directory, error)) {
    directory = fs::absolute(directory, error).parent_path();
  } else if (place.empty() || !fs::is_directory(directory, error)) {
    if (!place.empty() && place.find(':') == std::string::npos) {
      return BadInput(
          fmt::format("{}: no such run directory, and no address (tcp://HOST:PORT)", place));
    }
    return AccessFrom(place, key_file);
  }
  const fs::path file = fs::absolute(directory / kAddressName, error);
  if (!fs::exists(file, error)) {
    return BadInput(fmt::format(
        "{}: has no {}, which a scheduler writes when it has read its data, or the beginning of a "
        "stream; give a run directory, or the address of a scheduler",
        place, kAddressName));
  }
  DSLIDE_RETURN_IF_ERROR(CheckHasNotEnded(directory.string()));
  const fs::path key = directory / "keys" / (role + ".key");
  const bool has_key = key_file.empty() && fs::exists(key, error);
  return AccessFrom("file://" + file.string(), has_key ? key.string() : key_file);
}

Result<SchedulerAccess> RunAccess(const ParsedArguments& arguments, const std::string& role,
                                  bool with_argument) {
  const bool as_argument = with_argument && !arguments.Positional().empty();
  if (as_argument && arguments.Has("scheduler")) {
    return BadInput("the run is given twice, as an argument and by --scheduler");
  }
  const std::string place = as_argument ? arguments.Positional()[0] : arguments.Get("scheduler");
  if (place.empty() && !arguments.Has("key") && !HasJoinVariable()) {
    return BadInput(
        fmt::format("no run is given: name {}a run directory or an address by "
                    "--scheduler, or give --key FILE",
                    with_argument ? "its directory, " : ""));
  }
  return RunAccess(place, arguments.Get("key"), role);
}

}  // namespace dslide
