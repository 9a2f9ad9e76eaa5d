// dslide estimate: the needs, the speed and the bottleneck of a run.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "common/app/executable.h"
#include "common/app/limits.h"
#include "common/base/process.h"
#include "common/base/temporary_directory.h"
#include "common/log/log.h"
#include "tools/dslide/cluster/given_once.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/estimate/estimate.h"
#include "tools/dslide/estimate/estimate_report.h"
#include "worker/server_links.h"

namespace dslide {
namespace {

constexpr uint32_t kMaxShortProcesses = 4;  // of a role; the use of more follows from these
constexpr double kBusyLink = 0.5;  // from here on workers send 8 bits (worker/server_links.cc)

class Estimator {
 public:
  explicit Estimator(const ParsedArguments& arguments)
      : arguments_(arguments), directory_("dslide-estimate-") {}

  Status Run() {
    if (arguments_.Has("run")) return OfRun();
    Result<Overrides> overrides = OverridesOf(arguments_);
    DSLIDE_RETURN_IF_ERROR(overrides);
    overrides_ = *std::move(overrides);
    Result<Config> config = LoadConfig(arguments_.Get("config"), overrides_);
    DSLIDE_RETURN_IF_ERROR(config);
    config_ = *std::move(config);
    DSLIDE_RETURN_IF_ERROR(CheckNotLent(config_));
    DSLIDE_RETURN_IF_ERROR(CheckGivenOnce(
        arguments_, {{"servers", "cluster.servers"}, {"workers", "cluster.workers"}}));
    DSLIDE_RETURN_IF_ERROR(ReadMachines(config_.cluster));
    const TrainConfig& train = config_.train;
    if (train.data.empty()) return OfSizes();
    if (arguments_.Has("features") || arguments_.Has("labels")) {
      return BadInput("--features and --labels: for an estimate without data");
    }
    if (train.data == "-" || train.open_vocabulary) {
      return BadInput("train.data: a stream has no end to estimate; name a file");
    }
    if (!directory_.ok()) return Failed("no temporary directory can be made; set TMPDIR");
    if (config_.cluster.wire != Wire::kAuto) return Measure("");
    DSLIDE_RETURN_IF_ERROR(Measure("bf16"));
    const bool busy = report_.estimate && report_.estimate->link_busy > kBusyLink;
    return busy && ServerLinks::AdaptsPrecision(config_) ? Measure("int8") : Status();
  }

  const EstimateReport& report() const { return report_; }

 private:
  Status OfRun() {
    for (const char* name : {"config", "set", "data", "features", "labels"}) {
      if (arguments_.Has(name)) {
        return BadInput(fmt::format("--run: the run has its configuration; omit --{}", name));
      }
    }
    Result<EstimatedTask> task = ReadTask(arguments_.Get("run"));
    DSLIDE_RETURN_IF_ERROR(task);
    report_.task = *std::move(task);
    DSLIDE_RETURN_IF_ERROR(ReadMachines(report_.task.config.cluster));
    DSLIDE_RETURN_IF_ERROR(CheckMemory());
    return Evaluate(arguments_.Get("run"));
  }

  Status OfSizes() {
    if (!arguments_.Has("features") || !arguments_.Has("labels")) {
      return BadInput("no data: name the training file by --data, or give --features and --labels");
    }
    const Result<uint32_t> features = arguments_.Number("features", 1, kMostFeatures);
    DSLIDE_RETURN_IF_ERROR(features);
    const Result<uint32_t> labels = arguments_.Number("labels", 1, kMostLabels);
    DSLIDE_RETURN_IF_ERROR(labels);
    ResolveConfig(*features, *labels, &config_);
    report_.task.config = config_;
    report_.not_measured = "the rest needs the data (--data)";
    return CheckMemory();
  }

  Status ReadMachines(const ClusterConfig& cluster) {
    Machines& machines = report_.machines;
    machines.servers = cluster.servers;
    machines.workers = std::max(1u, cluster.workers);
    machines.cores = CoresOfThisMachine();
    uint32_t memory_gb = 0;
    struct Option {
      const char* name;
      uint32_t* value;
      uint32_t max;
    };
    for (const Option& option :
         {Option{"servers", &machines.servers, kMaxMachines},
          Option{"workers", &machines.workers, kMaxMachines},
          Option{"link", &machines.mbit, 1'000'000}, Option{"cores", &machines.cores, 1024},
          Option{"memory", &memory_gb, 65536}, Option{"rate", &machines.core_rate, 1'000'000'000},
          Option{"seconds", &seconds_, 3600}}) {
      if (!arguments_.Has(option.name)) continue;
      const Result<uint32_t> value = arguments_.Number(option.name, 1, option.max);
      DSLIDE_RETURN_IF_ERROR(value);
      *option.value = *value;
    }
    machines.memory_bytes = memory_gb > 0 ? uint64_t{memory_gb} << 30 : MemoryOfThisMachine();
    return {};
  }

  Status CheckMemory() {
    report_.exact = ExactFiguresOf(report_.task.config, report_.machines);
    const std::string& why = report_.exact.why_too_small;
    return why.empty() ? Status() : BadInput(why);
  }

  // True if report_.task has the task as the scheduler of the short run has read it.
  bool TakeTask(const std::string& directory) {
    if (report_.task.samples > 0) return true;
    Result<EstimatedTask> task = ReadTask(directory);
    if (!task.ok()) return false;
    report_.task = *std::move(task);
    ClusterConfig& cluster = report_.task.config.cluster;
    cluster.memory_mb = config_.cluster.memory_mb;
    cluster.executors = config_.cluster.executors;
    return true;
  }

  // `wire`: in place of cluster.wire = auto, because a busy machine looks like a busy link.
  Status Measure(const std::string& wire) {
    const std::string directory = directory_.path() + "/run" + wire;
    Overrides overrides = overrides_;
    if (!wire.empty()) overrides.push_back("cluster.wire=" + wire);
    // A checkpoint is a part of the peak of memory.
    overrides.push_back(fmt::format("checkpoint.interval_s={}", std::max(1u, seconds_ / 2)));
    const ShortRun run = {arguments_.Get("config"), overrides,
                          std::min(kMaxShortProcesses, report_.machines.servers),
                          std::min(kMaxShortProcesses, report_.machines.workers)};
    fmt::print(stderr, "training for {} s on this machine ...\n", seconds_);
    bool has_task = false;
    Status fits;
    const auto is_enough = [&] {
      if (!has_task && TakeTask(directory)) {
        has_task = true;
        fits = CheckMemory();
      }
      return !fits.ok() || RecordedSeconds(directory) >= seconds_;
    };
    StopSignals signals;
    const Status trained = TrainShortly(run, config_, directory, is_enough, &signals);
    (void)is_enough();  // of a run that ended at once
    if (!has_task && trained.ok()) return Failed("the run ended before it had any records");
    if (!has_task) return trained;
    DSLIDE_RETURN_IF_ERROR(fits);
    if (trained.ok()) return Evaluate(directory);
    if (trained.error().kind == ErrorKind::kPreempted) return trained;
    report_.not_measured = trained.error().message;
    return {};
  }

  Status Evaluate(const std::string& directory) {
    const Result<MeasuredRun> run = ReadMeasuredRun(directory, report_.task);
    DSLIDE_RETURN_IF_ERROR(run);
    report_.run = *run;
    report_.estimate = EstimateRun(report_.task, report_.machines, *run);
    return {};
  }

  const ParsedArguments& arguments_;
  TemporaryDirectory directory_;
  Config config_;  // the user's
  Overrides overrides_;
  uint32_t seconds_ = 20;
  EstimateReport report_;
};

Status MakeEstimate(const ParsedArguments& arguments) {
  StartLog("dslide", "", "warn");
  Estimator estimator(arguments);
  DSLIDE_RETURN_IF_ERROR(estimator.Run());
  const auto text = arguments.Has("json") ? EstimateJson : EstimateText;
  std::fputs(text(estimator.report()).c_str(), stdout);
  return {};
}

}  // namespace

int EstimateCommand(int argc, char** argv) {
  CommandLine line(
      "dslide estimate [--data FILE] [--servers N] [--workers M] [--link MBIT] [options]",
      "Estimates memory, disk, bytes, speed and hours of a run, and names the bottleneck. Memory "
      "of the model and disk follow from the data; the first seconds of the run itself, on this "
      "machine, measure the rest. Exit code 2: the model does not fit.");
  DeclareDataOptions(&line);
  line.Option("features", "D", "without data, for memory and disk: input features");
  line.Option("labels", "N", "without data, for memory and disk: labels");
  line.Option("servers", "N", "servers (cluster.servers)");
  line.Option("workers", "M", "workers (cluster.workers)");
  line.Option("link", "MBIT",
              "each server and worker has a machine with a link of so many Mbit/s in either "
              "direction; without it all are on one machine");
  line.Option("cores", "C", "cores of a machine; this machine's if not given");
  line.Option("memory", "GB", "memory of a machine; this machine's if not given");
  line.Option("rate", "R",
              "samples/s of a core of the machines, as this command prints them there; this "
              "machine's if not given");
  line.Option("run", "DIRECTORY", "measure a run in place of the first seconds of a new one");
  line.Option("seconds", "S", "length of the measurement; 20 if not given");
  line.Flag("json", "print JSON");
  DeclareConfigOptions(&line);
  return RunExecutable("dslide estimate", line, argc, argv, MakeEstimate);
}

int OldPlanCommand(int argc, char** argv) {
  return RunOldName("dslide plan", "dslide estimate", EstimateCommand, argc, argv);
}

}  // namespace dslide
