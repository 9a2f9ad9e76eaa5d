// dslide-server: owns a share of the parameters and of the hash tables.
#include <fmt/core.h>

#include "common/app/executable.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "server/server_shell.h"

namespace dslide {
namespace {

// What rows and tables may use.
Result<uint64_t> MemoryForRows(const ClusterConfig& cluster) {
  const uint64_t machine = MemoryOfThisMachine();
  if (cluster.memory_mb == 0) return machine / 10 * 8;
  const uint64_t bytes = uint64_t{cluster.memory_mb} << 20;
  if (bytes <= machine) return bytes;
  return BadInput(fmt::format("cluster.memory_mb = {}: this machine has {} MB", cluster.memory_mb,
                              machine >> 20));
}

// The scheduler of --scheduler and --key; its address may come from the configuration.
Result<SchedulerAccess> SchedulerOf(const ParsedArguments& arguments,
                                    const ClusterConfig& cluster) {
  Result<SchedulerAccess> given = SchedulerFromArguments(arguments);
  const ClusterConfig defaults;
  const bool configured = arguments.Has("config") ||
                          cluster.scheduler_advertise != defaults.scheduler_advertise ||
                          cluster.scheduler_bind != defaults.scheduler_bind;
  if (given.ok() || !arguments.Get("scheduler").empty() || HasJoinVariable() || !configured) {
    return given;
  }
  return AccessFrom(
      cluster.scheduler_advertise.empty() ? cluster.scheduler_bind : cluster.scheduler_advertise,
      arguments.Get("key"));
}

Status Serve(const ParsedArguments& arguments) {
  const Result<Config> config = ConfigFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(config);
  const ClusterConfig& cluster = config->cluster;
  ServerOptions options;
  Result<SchedulerAccess> scheduler = SchedulerOf(arguments, cluster);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  options.scheduler = *std::move(scheduler);
  const bool own_bind = arguments.Has("bind");
  options.bind = own_bind ? arguments.Get("bind") : cluster.server_bind;
  options.advertise =
      arguments.Has("advertise") ? arguments.Get("advertise") : cluster.server_advertise;
  options.name = arguments.Get("name");
  const Result<uint64_t> memory_bytes = MemoryForRows(cluster);
  DSLIDE_RETURN_IF_ERROR(memory_bytes);
  options.memory_bytes = *memory_bytes;
  const bool is_safe = options.scheduler.curve.has_value() ||
                       config->security.encryption == Encryption::kTrustedNetwork;
  DSLIDE_RETURN_IF_ERROR(CheckBind(own_bind ? "--bind" : "cluster.server_bind", options.bind,
                                   is_safe,
                                   "give --key FILE (RUN/keys/server.key) or a join string"));
  DSLIDE_RETURN_IF_ERROR(CheckAdvertise("--advertise", arguments.Get("advertise")));
  StopSignals signals;
  StartLog(options.name.empty() ? "server" : options.name, config->common.log_level);
  for (const std::string& line : IgnoredByServer(arguments.All("set"))) LogWarning(line);
  return ServerShell::Run(options, &signals);
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line(
      "dslide-server (--scheduler ADDRESS | --key FILE | --config FILE) [options]",
      "Owns a share of the parameters and of the hash tables, and serves workers.");
  dslide::DeclareSchedulerOptions(&line);
  line.Option("bind", "ADDRESS", "where to listen for workers (cluster.server_bind)");
  line.Option("advertise", "ADDRESS", "what workers dial, if not the bind address");
  line.Option("name", "NAME", "name in the roster");
  dslide::DeclareConfigOptions(&line);
  return dslide::RunExecutable("dslide-server", line, argc, argv, dslide::Serve);
}
