// dslide train: a whole cluster on this machine, as real processes, followed to its end.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "common/app/executable.h"
#include "tools/dslide/cluster/launcher.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// The configuration of the children: the user's, completed for a launch on one machine.
Result<Launch> Prepare(const ParsedArguments& arguments) {
  Launch launch;
  launch.resume = arguments.Has("resume");
  launch.overrides = arguments.All("set");
  launch.config_file = arguments.Get("config");
  if (launch.resume && launch.config_file.empty() && arguments.Has("run-dir")) {
    Result<std::string> stored = StoredConfig(arguments.Get("run-dir"));
    DSLIDE_RETURN_IF_ERROR(stored);
    launch.config_file = std::move(*stored);
  }
  Result<Config> config = LoadConfig(launch.config_file, launch.overrides);
  DSLIDE_RETURN_IF_ERROR(config);
  constexpr uint32_t kMaxProcesses = 1024;
  Result<uint32_t> servers = config->cluster.servers;
  if (arguments.Has("servers")) servers = arguments.Number("servers", 1, kMaxProcesses);
  DSLIDE_RETURN_IF_ERROR(servers);
  Result<uint32_t> workers = config->cluster.workers;
  if (arguments.Has("workers")) workers = arguments.Number("workers", 1, kMaxProcesses);
  DSLIDE_RETURN_IF_ERROR(workers);
  launch.overrides.push_back(fmt::format("cluster.servers={}", *servers));
  launch.overrides.push_back(fmt::format("cluster.workers={}", *workers));
  if (config->cluster.executors == 0) {
    launch.overrides.push_back(
        fmt::format("cluster.executors={}", std::max(1u, CoresOfThisMachine() / *servers)));
  }
  if (config->cluster.memory_mb == 0) {
    // Not for the run's configuration: the servers of a later launch may be others.
    const uint64_t share_mb = (MemoryOfThisMachine() >> 20) / 10 * 8 / *servers;
    launch.of_servers.push_back(
        fmt::format("cluster.memory_mb={}", std::max<uint64_t>(1, share_mb)));
  }
  if (config->cluster.scheduler_bind == ClusterConfig().scheduler_bind) {
    // Any free port, so that several runs fit on one machine.
    launch.overrides.push_back("cluster.scheduler_bind=tcp://127.0.0.1:*");
  }
  config = LoadConfig(launch.config_file, launch.overrides);
  DSLIDE_RETURN_IF_ERROR(config);
  launch.config = std::move(*config);
  launch.run_directory = arguments.Get("run-dir");
  if (launch.run_directory.empty()) {
    if (launch.resume) return BadInput("--resume needs --run-dir, the run to continue");
    for (int n = 1; launch.run_directory.empty(); ++n) {
      const std::string candidate = fmt::format("runs/run-{}", n);
      if (!fs::exists(candidate)) launch.run_directory = candidate;
    }
  }
  return launch;
}

Status Train(const ParsedArguments& arguments) {
  Result<Launch> launch = Prepare(arguments);
  DSLIDE_RETURN_IF_ERROR(launch);
  StopSignals signals;
  return Launcher(std::move(*launch), &signals).Run();
}

}  // namespace

int TrainCommand(int argc, char** argv) {
  CommandLine line(
      "dslide train [options]",
      "Starts a cluster on this machine, trains, and follows it to the end. Ctrl-C, SIGTERM or a "
      "terminal that closes writes a checkpoint and stops; a second signal stops at once.");
  line.Option("servers", "N", "servers to start (cluster.servers)");
  line.Option("workers", "M", "workers to start (cluster.workers)");
  line.Option("run-dir", "DIRECTORY", "where the run's files go; runs/run-N if not given");
  line.Flag("resume", "continue from the newest checkpoint of --run-dir");
  DeclareConfigOptions(&line);
  return RunExecutable("dslide train", line, argc, argv, Train);
}

}  // namespace dslide
