// dslide doctor: what keeps this machine from training, or from training fast.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/app/executable.h"
#include "common/idle/machine_reader.h"
#include "tools/dslide/cluster/run_access.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/doctor/cluster.h"
#include "tools/dslide/doctor/disk.h"
#include "tools/dslide/doctor/finding.h"
#include "tools/dslide/doctor/machine.h"
#include "tools/dslide/doctor/reach.h"

namespace dslide {
namespace {

// A directory of the run, or of a server; "": this machine's part is only to dial, as a worker
// does.
std::string DiskInUse(const ParsedArguments& arguments) {
  if (arguments.Has("run-dir") || arguments.Has("bind")) return arguments.Get("run-dir");
  std::string place = arguments.Get("scheduler");
  if (!arguments.Positional().empty()) place = arguments.Positional().front();
  std::error_code ignored;
  if (std::filesystem::is_directory(place, ignored)) return place;
  const bool dials = place.starts_with("tcp://") || place.starts_with("dslide://") ||
                     (place.empty() && HasJoinVariable());
  return dials ? "" : arguments.Get("run-dir");
}

Status Examine(const ParsedArguments& arguments) {
  Findings findings;
  const bool all = arguments.Has("all");
  if (!all) {
    JudgeMachine(ReadMachine(MachineReader::DefaultRoot()), &findings);
    if (const std::string disk = DiskInUse(arguments); !disk.empty()) CheckDisk(disk, &findings);
  }
  std::optional<SchedulerAccess> access;
  nlohmann::json status;
  const bool has_run = !arguments.Positional().empty() || arguments.Has("scheduler") ||
                       arguments.Has("key") || HasJoinVariable();
  if (has_run || all) {
    Result<SchedulerAccess> given = RunAccess(arguments, "observer", true);
    if (given.ok()) {
      access = *std::move(given);
      // Where the scheduler is not reached, it is not asked whether it reaches this machine.
      if (!CheckScheduler(*access, &findings, all ? &status : nullptr)) access.reset();
      if (all) JudgeCluster(status, ProgramVersion(), &findings);
    } else {
      findings.Problem("scheduler", given.error().message,
                       "the address is in RUN/scheduler.address, keys are in RUN/keys");
    }
  }
  if (arguments.Has("bind")) {
    CheckListening({arguments.Get("bind"), arguments.Get("advertise")}, access, &findings);
  }
  const size_t problems = findings.Count(Finding::Level::kProblem);
  if (arguments.Has("json")) {
    fmt::print("{}\n", findings.Json());
  } else {
    fmt::print("{}", findings.Text());
  }
  std::fflush(stdout);
  if (problems == 0) return {};
  return Failed(problems == 1 ? "a problem was found"
                              : fmt::format("{} problems were found", problems));
}

}  // namespace

int DoctorCommand(int argc, char** argv) {
  CommandLine line(
      "dslide doctor [RUN] [options]",
      "Looks for what keeps this machine from training, or from training fast: processor, "
      "memory, clock, limits, disk (not where only an address is given); with a scheduler the way "
      "to it and its servers, keys "
      "and versions; with --bind whether the scheduler reaches a server here. Each "
      "finding comes with its mend. With --all: the members of a whole run. Exit code 1: something "
      "does not work.");
  DeclareRunOptions(&line, true);
  line.Flag("all", "look at all members of that run from here, in place of this machine");
  line.Option("bind", "ADDRESS", "look whether a server can listen there, e.g. tcp://*:7701");
  line.Option("advertise", "ADDRESS", "what workers would dial, if not the bind address");
  line.Option("run-dir", "DIRECTORY", "where checkpoints would go", ".");
  line.Flag("json", "print JSON");
  return RunExecutable("dslide doctor", line, argc, argv, Examine);
}

}  // namespace dslide
