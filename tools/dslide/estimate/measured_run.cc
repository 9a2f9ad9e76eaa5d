#include "tools/dslide/estimate/measured_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/data/whole_file.h"
#include "common/math/median.h"
#include "scheduler/status/run_costs.h"
#include "tools/dslide/cluster/launcher.h"
#include "tools/dslide/cluster/train_child.h"
#include "tools/dslide/report/run_directory.h"

namespace dslide {
namespace {

using Json = nlohmann::json;

constexpr size_t kEnoughRecords = 3;  // for figures that leave out the start of the processes
constexpr const char* kMetrics = "/metrics.jsonl";

struct RoleName {
  const char* name;
  RoleUse MeasuredRun::*use;
};
constexpr std::array<RoleName, 3> kRoles = {{{"server", &MeasuredRun::server},
                                             {"worker", &MeasuredRun::worker},
                                             {"scheduler", &MeasuredRun::scheduler}}};

// A progress record, or the end of a run.
struct Moment {
  double samples = 0;                   // until then
  std::map<std::string, double> bytes;  // a sample, since the record before
  std::array<double, kRoles.size()> cpu_seconds = {};
};

// Also adds counts and memory of the processes to *run.
Moment MomentOf(const Json& json, MeasuredRun* run) {
  Moment moment;
  moment.samples = json.at("samples");
  moment.bytes = json.at("bytes_per_sample_by_message").get<std::map<std::string, double>>();
  for (size_t r = 0; r < kRoles.size(); ++r) {
    const Json& role = json.at("processes").at(kRoles[r].name);
    RoleUse& use = run->*kRoles[r].use;
    moment.cpu_seconds[r] = role.at("cpu_seconds");
    use.count = std::max(use.count, role.at("count").get<uint32_t>());
    const double bytes = role.at("peak_rss_mb").get<double>() * (1 << 20);
    use.peak_bytes = std::max(use.peak_bytes, static_cast<uint64_t>(bytes));
  }
  return moment;
}

// CPU time of a role, a sample: the median, which leaves out checkpoints and evaluations.
double CpuUs(const std::vector<Moment>& moments, size_t role) {
  std::vector<double> us;
  for (size_t i = 1; i < moments.size(); ++i) {
    const Moment &begin = moments[i - 1], &end = moments[i];
    const double seconds = end.cpu_seconds[role] - begin.cpu_seconds[role];
    if (end.samples > begin.samples) us.push_back(1e6 * seconds / (end.samples - begin.samples));
  }
  return us.empty() ? 0 : Median(us);
}

// REQUIRES at least two moments; the first of them is only the start.
void Summarise(const std::vector<Moment>& moments, const EstimatedTask& task, MeasuredRun* run) {
  const Moment& last = moments.back();
  for (size_t r = 0; r < kRoles.size(); ++r) (run->*kRoles[r].use).cpu_us = CpuUs(moments, r);
  const double all =
      std::max(last.samples, static_cast<double>(task.samples) * task.config.train.epochs);
  const double half = last.samples / 2, repeats = (all - last.samples) / half;
  double begin = 0;
  for (const Moment& moment : moments) {
    if (moment.samples <= begin) continue;  // a recovery has taken samples back
    const double in_last_half = std::max(0.0, moment.samples - std::max(begin, half));
    const double weight = moment.samples - begin + repeats * in_last_half;
    for (const auto& [message, bytes] : moment.bytes) {
      run->bytes[message] += bytes * weight / all;
    }
    begin = moment.samples;
  }
  run->share = last.samples / all;
  run->batches = last.samples / task.config.train.batch;
}

// In place of keys that belong to the machines of the real run.
Overrides OnThisMachine(const ShortRun& run, const Config& config) {
  Overrides settings = {"train.test=", "cluster.memory_mb=0",
                        fmt::format("cluster.servers={}", run.servers),
                        fmt::format("cluster.workers={}", run.workers)};
  for (const char* key : {"scheduler_advertise", "server_advertise", "status_bind"}) {
    settings.push_back(fmt::format("cluster.{}=", key));
  }
  for (const char* key : {"scheduler_bind", "server_bind"}) {
    settings.push_back(fmt::format("cluster.{}={}", key, kLaunchedBind));
  }
  for (const char* key : {"directory", "hook", "shard_hook"}) {
    settings.push_back(fmt::format("checkpoint.{}=", key));
  }
  if (IsEncrypted(config)) settings.push_back("security.encryption=always");
  return settings;
}

}  // namespace

Result<EstimatedTask> ReadTask(const std::string& run_directory) {
  Result<Config> config = LoadConfig(run_directory + "/config.ini", {});
  DSLIDE_RETURN_IF_ERROR(config);
  EstimatedTask task;
  DSLIDE_RETURN_IF_ERROR(ReadRecords(run_directory + kMetrics, [&](const Json& record) {
    if (record.at("event") != "start") return;
    task.samples = record.at("train_samples");
    task.held_out_samples = record.at("held_out_samples");
  }));
  task.config = *std::move(config);
  if (task.samples > 0) return task;
  return BadInput(run_directory + ": a stream has no end to estimate");
}

Result<MeasuredRun> ReadMeasuredRun(const std::string& run_directory, const EstimatedTask& task) {
  MeasuredRun run;
  std::vector<Moment> moments;
  bool is_known = true;
  DSLIDE_RETURN_IF_ERROR(ReadRecords(run_directory + kMetrics, [&](const Json& json) {
    if (json.at("event") == "start") {
      moments.clear();
      run = {};
    }
    if (json.at("event") != "progress") return;
    is_known &= json.contains("processes");
    if (is_known) moments.push_back(MomentOf(json, &run));
  }));
  const Result<std::string> text = ReadWholeFile(run_directory + "/summary.json");
  const Json summary = text.ok() ? Json::parse(*text, nullptr, false) : Json();
  if (is_known && summary.is_object() && summary.contains("processes")) {
    Moment end = MomentOf(summary, &run);
    if (moments.size() < kEnoughRecords) moments = {Moment(), std::move(end)};
  }
  const Result<std::string> totals = ReadWholeFile(run_directory + "/" + kTotalsName);
  if (!is_known || !totals.ok() || moments.size() < 2 || moments.back().samples <= 0) {
    return BadInput(fmt::format(
        "{}: has no records of the processes; the run is of an earlier version, or too short",
        run_directory));
  }
  const Result<RunCosts> costs = ParseCosts(*totals);
  DSLIDE_RETURN_IF_ERROR(costs);
  run.lease_bytes = costs->work.PerSample(costs->lease_bytes);
  Summarise(moments, task, &run);
  if (run.server.cpu_us + run.worker.cpu_us <= 0) {
    return BadInput(run_directory + ": its records have no CPU time; measure a longer run");
  }
  if (run.server.count == 0) run.server.count = task.config.cluster.servers;
  if (run.worker.count == 0) run.worker.count = std::max(1u, task.config.cluster.workers);
  return run;
}

Status TrainShortly(const ShortRun& run, const Config& config, const std::string& run_directory,
                    const std::function<bool()>& is_enough, StopSignals* signals) {
  std::vector<std::string> arguments = {"--run-dir", run_directory};
  if (!run.config_file.empty()) {
    arguments.insert(arguments.end(), {"--config", run.config_file});
  }
  for (const Overrides& settings : {run.overrides, OnThisMachine(run, config)}) {
    for (const std::string& setting : settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
  }
  const Result<TrainOutcome> ended =
      RunTrain("train", arguments, run_directory + ".log", is_enough, signals);
  DSLIDE_RETURN_IF_ERROR(ended);
  if (ended->interrupted) return Error{ErrorKind::kPreempted, "stopped"};
  if (ended->exit_code == 0 || ended->stopped) return {};
  return ended->exit_code == ExitCode(ErrorKind::kBadInput) ? BadInput(ended->reason)
                                                            : Failed(ended->reason);
}

double RecordedSeconds(const std::string& run_directory) {
  double first = 0, last = 0;
  // Fails as long as the run has not written the file.
  (void)ReadRecords(run_directory + kMetrics, [&](const Json& json) {
    if (json.at("event") != "progress") return;
    last = json.at("elapsed_s");
    if (first == 0) first = last;
  });
  return last - first;
}

}  // namespace dslide
