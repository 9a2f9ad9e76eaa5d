// dslide-swarm: the real scheduler with thousands of modelled members, under virtual time.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "common/app/executable.h"
#include "common/base/process.h"
#include "tools/bench/swarm/swarm.h"

namespace dslide {
namespace {

constexpr int64_t kMinuteMs = 60'000;

double PeakMb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

void PrintHeader() {
  fmt::print("{:>6} {:>7} {:>7} {:>9} {:>8} {:>9} {:>8} {:>9} {:>8} {:>6} {:>8}\n", "minute",
             "servers", "workers", "batches/s", "of ideal", "core CPU", "longest", "messages/s",
             "out MB/s", "plans", "restores");
}

void PrintRow(const Swarm& swarm, const SwarmTotals& from, int64_t ms) {
  const SwarmTotals& to = swarm.totals();
  const double seconds = static_cast<double>(ms) / 1000;
  const double batches = static_cast<double>(to.batches) - static_cast<double>(from.batches);
  const auto messages =
      static_cast<double>(to.messages_in + to.messages_out - from.messages_in - from.messages_out);
  fmt::print("{:6} {:7} {:7} {:9.0f} {:7.0f}% {:8.0f}% {:6.0f}ms {:10.0f} {:8.2f} {:6} {:8}\n",
             swarm.now_ms() / kMinuteMs, swarm.servers(), swarm.workers(), batches / seconds,
             100 * batches / std::max(1.0, to.capacity - from.capacity),
             100 * (to.core_s - from.core_s) / seconds, to.longest_ms, messages / seconds,
             static_cast<double>(to.bytes_out - from.bytes_out) / 1e6 / seconds, to.plans,
             to.restores);
  std::fflush(stdout);
}

void PrintEnd(const Swarm& swarm) {
  const SwarmTotals& all = swarm.totals();
  const double virtual_s = static_cast<double>(swarm.now_ms()) / 1000;
  fmt::print("virtual time {:.0f} s, {} events, {:.0f} s CPU: {:.1f} virtual seconds a second\n",
             virtual_s, all.events, all.cpu_s, virtual_s / all.cpu_s);
  fmt::print("faults: {} workers said goodbye, {} were switched off, {} servers failed, {} sites\n",
             all.left, all.switched_off, all.server_failures, all.site_failures);
  fmt::print("{} batches count, {} were done again; {} checkpoints; {} messages were refused\n",
             all.batches, all.taken_back, all.checkpoints, all.refused);
  fmt::print(
      "the core took {:.1f} % of a core, its longest call {:.0f} ms; peak memory {:.0f} MB\n",
      100 * all.core_s / virtual_s, all.longest_ms, PeakMb());
}

Result<SwarmSettings> SettingsOf(const ParsedArguments& arguments) {
  SwarmSettings settings;
  const auto read = [&](const char* name, uint32_t most, auto* to) -> Status {
    const Result<uint32_t> number = arguments.Number(name, 0, most);
    if (!number.ok()) return number.error();
    *to = *number;
    return {};
  };
  for (const Status& status :
       {read("servers", 1'000'000, &settings.servers),
        read("workers", 1'000'000, &settings.workers), read("sites", 1000, &settings.weather.sites),
        read("seed", ~0u, &settings.seed), read("batch-s", 3600, &settings.batch_s),
        read("heartbeat-ms", 60'000, &settings.heartbeat_ms),
        read("checkpoint-s", 86'400, &settings.checkpoint_s),
        read("session-h", 10'000, &settings.weather.session_h),
        read("server-mtbf-h", 1'000'000, &settings.weather.server_mtbf_h),
        read("site-mtbf-h", 1'000'000, &settings.weather.site_mtbf_h)}) {
    if (!status.ok()) return status.error();
  }
  settings.servers = std::max(1u, settings.servers);
  settings.weather.sites = std::max(1u, settings.weather.sites);
  return settings;
}

Status Run(const ParsedArguments& arguments) {
  const Result<SwarmSettings> settings = SettingsOf(arguments);
  if (!settings.ok()) return settings.error();
  const Result<uint32_t> minutes = arguments.Number("minutes", 1, 1'000'000);
  if (!minutes.ok()) return minutes.error();
  const Result<uint32_t> row = arguments.Number("row-minutes", 1, 1'000'000);
  if (!row.ok()) return row.error();
  Swarm swarm(*settings);
  PrintHeader();
  for (uint32_t minute = *row;; minute += *row) {
    const SwarmTotals before = swarm.totals();
    const int64_t from_ms = swarm.now_ms();
    swarm.RunUntil(kMinuteMs * std::min(minute, *minutes));
    PrintRow(swarm, before, swarm.now_ms() - from_ms);
    if (minute >= *minutes) break;
  }
  PrintEnd(swarm);
  if (arguments.Has("notices")) {
    for (const Event& event : swarm.notices()) fmt::print("{}\n", event.text);
  }
  return {};
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::CommandLine line("dslide-swarm [options]",
                           "Runs the scheduler with modelled servers and workers that come and go, "
                           "under virtual time.");
  line.Option("servers", "N", "servers", "1000");
  line.Option("workers", "N", "machines of workers; part of them are there", "10000");
  line.Option("minutes", "N", "virtual time", "60");
  line.Option("row-minutes", "N", "of each row that is printed", "5");
  line.Option("sites", "N", "that fail as a whole, around the earth", "20");
  line.Option("seed", "N", "of all draws", "1");
  line.Option("batch-s", "S", "what a worker takes for a batch, mean", "2");
  line.Option("heartbeat-ms", "MS", "cluster.heartbeat_ms", "5000");
  line.Option("checkpoint-s", "S", "checkpoint.interval_s", "300");
  line.Option("session-h", "H", "a worker's time in the run, mean", "3");
  line.Option("server-mtbf-h", "H", "between failures of one server, mean", "2000");
  line.Option("site-mtbf-h", "H", "between failures of one site, mean", "200");
  line.Flag("notices", "print what the scheduler says");
  return dslide::RunExecutable("dslide-swarm", line, argc, argv, dslide::Run);
}
