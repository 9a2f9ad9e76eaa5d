// dslide-worker: trains leased batches against the servers; holds no parameters.
#include <fmt/format.h>

#include "common/app/executable.h"
#include "common/idle/policy.h"
#include "common/idle/priority.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/security/run_place.h"
#include "worker/events.h"
#include "worker/worker_process.h"

namespace dslide {
namespace {

// The scheduler of the argument, or of --scheduler, --key and DSLIDE_JOIN.
Result<SchedulerAccess> SchedulerOf(const ParsedArguments& arguments) {
  const Result<std::string> place = SchedulerPlace(arguments, true);
  DSLIDE_RETURN_IF_ERROR(place);
  return AccessTo(*place, arguments.Get("key"), "worker");
}

Status Work(const ParsedArguments& arguments) {
  const Result<Config> config = OwnConfigFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(config);
  const IdleConfig& rules = config->idle;
  WorkerOptions options;
  options.volunteer = arguments.Has("volunteer") || !arguments.Positional().empty();
  const bool is_lent = options.volunteer || arguments.Has("idle") || rules.given;
  if (is_lent) LimitCores(rules.cores);
  const std::string limits = is_lent ? LowerPriority(rules.priority) : "";
  const bool has_file = arguments.Has("config");
  StopSignals signals(is_lent && has_file ? StopSignals::HangUp::kReloads
                                          : StopSignals::HangUp::kStops);
  options.name = arguments.Get("name");
  StartLog("worker", options.name, "info");
  for (const std::string& line : IgnoredByWorker(arguments.All("set"))) {
    LogWarning({event::kSettingIgnored, line});
  }
  Result<SchedulerAccess> scheduler = SchedulerOf(arguments);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  options.scheduler = *std::move(scheduler);
  options.data = arguments.Get("data");
  if (!is_lent) return RunWorker(options, nullptr, &signals);
  LogInfo({event::kHostPolicy, "lent by its owner: " + RulesText(rules)});
  if (!limits.empty()) LogWarning({event::kProcessLimited, limits});
  const auto read_rules = [&]() -> Result<IdleConfig> {
    const Result<Config> again = OwnConfigFromArguments(arguments);
    DSLIDE_RETURN_IF_ERROR(again);
    return again->idle;
  };
  LentMachine lent(rules, has_file ? LentMachine::ReadRules(read_rules) : nullptr,
                   options.scheduler.address);
  return RunWorker(options, &lent, &signals);
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line("dslide-worker JOIN | --scheduler PLACE | --key FILE [options]",
                           "Trains batches for a cluster. Everything else comes from the "
                           "scheduler, but what the owner of "
                           "a lent machine allows ([idle], see configs/README.md).");
  line.Positional(
      "JOIN",
      "join string dslide://HOST:PORT/KEY/KEY, or any other PLACE: a volunteer, see --volunteer", 0,
      1);
  dslide::DeclareSchedulerOptions(&line);
  line.Option("name", "NAME", "name in the roster");
  line.Option(
      "data", "FILE",
      "the training file, if it is on this machine too: the scheduler then sends no samples");
  line.Flag("idle", "the machine is lent: the rules of [idle] count, if only their defaults");
  line.Flag("volunteer",
            "lent too, and stays when the scheduler does not: dials again until the run is done");
  dslide::DeclareOwnConfigOptions(&line);
  return dslide::RunExecutable("dslide-worker", line, argc, argv, dslide::Work);
}
