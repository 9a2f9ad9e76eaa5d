// dslide-server: owns a share of the parameters and of the hash tables.
#include <fmt/core.h>

#include <algorithm>

#include "common/app/executable.h"
#include "common/base/process.h"
#include "common/idle/priority.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/security/run_place.h"
#include "server/base/events.h"
#include "server/rows/row_disk.h"
#include "server/server_shell.h"

namespace dslide {
namespace {

// What rows and tables may use.
Result<uint64_t> MemoryForRows(const Config& config) {
  const uint64_t machine = MemoryOfThisMachine();
  const uint32_t memory_mb = config.cluster.memory_mb, owners_mb = config.idle.memory_mb;
  const uint64_t whole = owners_mb == 0 ? machine : std::min(machine, uint64_t{owners_mb} << 20);
  if (memory_mb == 0) return whole / 10 * 8;
  const uint64_t bytes = uint64_t{memory_mb} << 20;
  if (bytes <= whole) return bytes;
  if (whole < machine) {
    return BadInput(
        fmt::format("cluster.memory_mb = {}: idle.memory_mb allows the whole process {}", memory_mb,
                    owners_mb));
  }
  return BadInput(
      fmt::format("cluster.memory_mb = {}: this machine has {} MB", memory_mb, machine >> 20));
}

constexpr char kRole[] = "server";

// The scheduler of --scheduler and --key; its address may come from the configuration.
Result<SchedulerAccess> SchedulerOf(const ParsedArguments& arguments,
                                    const ClusterConfig& cluster) {
  const std::string place = arguments.Get("scheduler");
  Result<SchedulerAccess> given = AccessTo(place, arguments.Get("key"), kRole);
  const ClusterConfig defaults;
  const bool configured = arguments.Has("config") ||
                          cluster.scheduler_advertise != defaults.scheduler_advertise ||
                          cluster.scheduler_bind != defaults.scheduler_bind;
  if (given.ok() || !place.empty() || HasJoinVariable() || !configured) {
    return given;
  }
  return AccessTo(
      cluster.scheduler_advertise.empty() ? cluster.scheduler_bind : cluster.scheduler_advertise,
      arguments.Get("key"), kRole);
}

Status Serve(const ParsedArguments& arguments) {
  const Result<Config> config = OwnConfigFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckLentToServer(*config));
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
  const Result<uint64_t> memory_bytes = MemoryForRows(*config);
  DSLIDE_RETURN_IF_ERROR(memory_bytes);
  options.memory_bytes = *memory_bytes;
  options.disk_bytes = uint64_t{config->idle.disk_mb} << 20;
  std::string why_no_disk;
  Result<RowDisk> row_disk = DiskForRows(*config, &why_no_disk);
  DSLIDE_RETURN_IF_ERROR(row_disk);
  if (!why_no_disk.empty()) LogInfo({event::kNoDiskForRows, "no disk for rows: " + why_no_disk});
  options.row_disk = *std::move(row_disk);
  options.hook = config->checkpoint.shard_hook;
  const bool is_safe = options.scheduler.curve.has_value() ||
                       config->security.encryption == Encryption::kTrustedNetwork;
  DSLIDE_RETURN_IF_ERROR(CheckBind(own_bind ? "--bind" : "cluster.server_bind", options.bind,
                                   is_safe,
                                   "give --key FILE (RUN/keys/server.key) or a join string"));
  DSLIDE_RETURN_IF_ERROR(CheckAdvertise("--advertise", arguments.Get("advertise")));
  const bool is_lent = config->idle.given || arguments.Has("idle");
  if (is_lent) LimitCores(config->idle.cores);
  const std::string limits = is_lent ? LowerPriority(config->idle.priority) : "";
  StopSignals signals;
  StartLog("server", options.name, config->common.log_level);
  for (const std::string& line : IgnoredByServer(arguments.All("set"))) {
    LogWarning({event::kSettingIgnored, line});
  }
  if (!limits.empty()) LogWarning({event::kProcessLimited, limits});
  return ServerShell::Run(options, &signals);
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line(
      "dslide-server (--scheduler PLACE | --key FILE | --config FILE) [options]",
      "Owns a share of the parameters and of the hash tables, and serves workers.");
  dslide::DeclareSchedulerOptions(&line);
  line.Option("bind", "ADDRESS", "where to listen for workers (cluster.server_bind)");
  line.Option("advertise", "ADDRESS", "what workers dial, if not the bind address");
  line.Option("name", "NAME", "name in the roster");
  line.Flag("idle", "the machine is lent: the process has the lowest priority");
  dslide::DeclareConfigOptions(&line);
  return dslide::RunExecutable("dslide-server", line, argc, argv, dslide::Serve);
}
