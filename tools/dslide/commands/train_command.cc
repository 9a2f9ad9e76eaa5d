// dslide train: a whole cluster on this machine, as real processes, followed to its end.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/app/executable.h"
#include "common/app/limits.h"
#include "common/app/run_directory.h"
#include "common/base/address.h"
#include "common/config/config_keys.h"
#include "common/log/log.h"
#include "tools/dslide/cluster/given_once.h"
#include "tools/dslide/cluster/launcher.h"
#include "tools/dslide/cluster/process_count.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/commands/train_from.h"
#include "tools/dslide/tune/tuner.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// The run directory that the user names, or a new one.
Result<std::string> RunDirectory(const ParsedArguments& arguments) {
  if (arguments.Has("run-dir")) {
    DSLIDE_RETURN_IF_ERROR(CheckRunDirectory(arguments.Get("run-dir")));
    return arguments.Get("run-dir");
  }
  for (const char* option : {"resume", "begin-or-resume"}) {
    if (arguments.Has(option)) return BadInput(fmt::format("--{} needs --run-dir", option));
  }
  for (int n = 1;; ++n) {
    std::string candidate = fmt::format("runs/run-{}", n);
    if (!fs::exists(candidate)) return candidate;
  }
}

// What a server may use, by the configuration or as its share of the machine.
Status ShareMemory(uint32_t memory_mb, uint32_t servers, Launch* launch) {
  const uint64_t machine_mb = MemoryOfThisMachine() >> 20;
  if (memory_mb > machine_mb) {
    return BadInput(
        fmt::format("cluster.memory_mb = {}: this machine has {} MB", memory_mb, machine_mb));
  }
  launch->server_memory_mb = memory_mb;
  if (memory_mb > 0) return {};
  // Not for the run's configuration: the servers of a later launch may be others.
  const uint64_t share_mb = std::clamp<uint64_t>(machine_mb / 10 * 8 / servers, 1, kMostMemoryMb);
  launch->server_memory_mb = static_cast<uint32_t>(share_mb);
  launch->of_servers.push_back(fmt::format("cluster.memory_mb={}", share_mb));
  return {};
}

// Servers listen where the scheduler does, unless their address is set: its workers dial them, too.
// Not for the run's configuration: a later launch may be at another address.
void OpenServers(const ClusterConfig& cluster, Overrides* of_servers) {
  const std::optional<TcpAddress> scheduler = ParseTcp(cluster.scheduler_bind);
  if (!scheduler || IsLoopback(cluster.scheduler_bind)) return;
  if (cluster.server_bind != ClusterConfig().server_bind) return;
  of_servers->push_back(fmt::format("cluster.server_bind=tcp://{}:*", scheduler->host));
  const std::optional<TcpAddress> advertised = ParseTcp(cluster.scheduler_advertise);
  if (!advertised || !cluster.server_advertise.empty()) return;
  of_servers->push_back(fmt::format("cluster.server_advertise=tcp://{}:*", advertised->host));
}

// The configuration of the children: the user's, completed for a launch on one machine. `base` has
// what the user leaves open.
Status Complete(const ParsedArguments& arguments, const Config& base, Launch* launch) {
  // Any free port where nobody has named an address, not even the default one.
  Config open = base;
  if (open.cluster.scheduler_bind == ClusterConfig().scheduler_bind) {
    open.cluster.scheduler_bind = kLaunchedBind;
  }
  Result<Config> config = LoadConfig(launch->config_file, launch->overrides, open);
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckNotLent(*config));
  DSLIDE_RETURN_IF_ERROR(
      CheckGivenOnce(arguments, {{"servers", "cluster.servers"}, {"workers", "cluster.workers"}}));
  Result<uint32_t> servers = config->cluster.servers;
  if (arguments.Has("servers")) servers = arguments.Number("servers", 1, kMostStartedServers);
  DSLIDE_RETURN_IF_ERROR(servers);
  Result<uint32_t> workers = config->cluster.workers;
  if (arguments.Has("workers")) workers = arguments.Number("workers", 0, kMostStartedWorkers);
  DSLIDE_RETURN_IF_ERROR(workers);
  Result<std::string> notice =
      JudgeProcesses({*servers, *workers, CoresOfThisMachine(), MemoryOfThisMachine()});
  DSLIDE_RETURN_IF_ERROR(notice);
  launch->notice = *std::move(notice);
  launch->overrides.push_back(fmt::format("cluster.servers={}", *servers));
  launch->overrides.push_back(fmt::format("cluster.workers={}", *workers));
  if (config->cluster.executors == 0) {
    launch->overrides.push_back(fmt::format("cluster.executors={}", LaunchedExecutors(*servers)));
  }
  DSLIDE_RETURN_IF_ERROR(ShareMemory(config->cluster.memory_mb, *servers, launch));
  // The configuration of a resumed run sets every key, so it does not show which ones the user
  // gave.
  const auto given = GivenKeys(arguments.Get("config"), arguments.All("set"));
  DSLIDE_RETURN_IF_ERROR(given);
  if (!given->contains("cluster.server_bind")) OpenServers(config->cluster, &launch->of_servers);
  if (config->cluster.scheduler_bind == kLaunchedBind) {
    launch->overrides.push_back(fmt::format("cluster.scheduler_bind={}", kLaunchedBind));
  }
  config = LoadConfig(launch->config_file, launch->overrides, base);
  DSLIDE_RETURN_IF_ERROR(config);
  launch->config = std::move(*config);
  return {};
}

Result<Launch> Prepare(const ParsedArguments& arguments) {
  Launch launch;
  Result<Overrides> overrides = OverridesOf(arguments);
  DSLIDE_RETURN_IF_ERROR(overrides);
  launch.overrides = *std::move(overrides);
  launch.config_file = arguments.Get("config");
  Result<std::string> run_directory = RunDirectory(arguments);
  DSLIDE_RETURN_IF_ERROR(run_directory);
  launch.run_directory = *std::move(run_directory);
  launch.resume = Resumes(arguments);
  if (HoldsTuning(launch.run_directory)) {
    return BadInput(
        fmt::format("--run-dir: {} holds a tuning of dslide tune; name another directory",
                    launch.run_directory));
  }
  if (launch.resume && IsUnfinishedStart(launch.run_directory)) {
    return BadInput(fmt::format(
        "--resume: {} was not begun to the end; give the same dslide train --from again",
        launch.run_directory));
  }
  if (launch.resume && launch.config_file.empty()) {
    Result<std::string> stored = StoredConfig(launch.run_directory);
    DSLIDE_RETURN_IF_ERROR(stored);
    launch.config_file = std::move(*stored);
  }
  return launch;
}

// What is there before the run leaves anything.
NewFiles NewFilesOf(const Launch& launch, const std::string& checkpoint_directory) {
  std::vector<NewFiles::Directory> directories = {{launch.run_directory, IsNameOfRun}};
  if (!checkpoint_directory.empty()) {
    directories.push_back({checkpoint_directory, IsNameOfCheckpoints});
  }
  return NewFiles(directories);
}

// Makes a new run directory that nobody has named, under the next name if another process has just
// made it. An error is that of the launch.
Status TakeDirectory(const ParsedArguments& arguments, Launch* launch) {
  launch->made = NewFilesOf(*launch, launch->config.checkpoint.directory);
  if (arguments.Has("run-dir")) return {};
  std::error_code error;
  fs::create_directories(fs::path(launch->run_directory).parent_path(), error);
  while (!fs::create_directory(launch->run_directory, error) && !error) {
    Result<std::string> next = RunDirectory(arguments);
    DSLIDE_RETURN_IF_ERROR(next);
    launch->run_directory = *std::move(next);
    launch->made = NewFilesOf(*launch, launch->config.checkpoint.directory);
  }
  return {};
}

Status Run(Launch launch, StopSignals* signals) {
  return Launcher(std::move(launch), signals).Run();
}

Status TrainFromEarlier(const ParsedArguments& arguments, Launch launch) {
  if (arguments.Has("resume") || arguments.Has("begin-or-resume")) {
    return BadInput(
        "--from begins a new run, --resume continues that of --run-dir; give one of them");
  }
  StartLog("dslide", "", "warn");  // the scheduler says what it reads
  // A signal ends the process: there is nothing to tidy up yet.
  Result<TrainFrom> start = TrainFrom::Read(
      {arguments.Get("from"), launch.run_directory, launch.config_file, launch.overrides});
  DSLIDE_RETURN_IF_ERROR(start);
  DSLIDE_RETURN_IF_ERROR(Complete(arguments, start->config(), &launch));
  launch.made = NewFilesOf(launch, start->config().checkpoint.directory);
  StopSignals signals;
  std::fputs((start->Description() + "\n").c_str(), stdout);
  std::fflush(stdout);
  DSLIDE_RETURN_IF_ERROR(start->Write([&signals] { return signals.Take(); }));
  Result<std::string> stored = StoredConfig(launch.run_directory);
  DSLIDE_RETURN_IF_ERROR(stored);
  launch.config_file = *std::move(stored);
  launch.resume = true;
  return Run(std::move(launch), &signals);
}

Status Train(const ParsedArguments& arguments) {
  Result<Launch> launch = Prepare(arguments);
  DSLIDE_RETURN_IF_ERROR(launch);
  if (arguments.Has("from")) return TrainFromEarlier(arguments, *std::move(launch));
  DSLIDE_RETURN_IF_ERROR(Complete(arguments, {}, &*launch));
  DSLIDE_RETURN_IF_ERROR(TakeDirectory(arguments, &*launch));
  StopSignals signals;
  return Run(*std::move(launch), &signals);
}

}  // namespace

int TrainCommand(int argc, char** argv) {
  CommandLine line(
      "dslide train --data FILE [options]",
      "Starts a cluster on this machine, trains, and follows it to the end. Ctrl-C, SIGTERM or a "
      "terminal that closes writes a checkpoint and stops; a second signal stops at once.");
  DeclareDataOptions(&line);
  line.Option("servers", "N", "servers to start (cluster.servers)");
  line.Option("workers", "M", "workers to start; 0: others will join (cluster.workers)");
  line.Option("run-dir", "DIRECTORY", "where the run's files go; runs/run-N if not given");
  DeclareResumeOptions(&line);
  line.Option(
      "from", "MODEL",
      "begin a new run with the model of an earlier one: its run directory or a checkpoint");
  DeclareConfigOptions(&line);
  return RunExecutable("dslide train", line, argc, argv, Train);
}

}  // namespace dslide
