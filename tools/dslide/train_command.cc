// dslide train: a whole cluster on this machine, as real processes, followed to its end.
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/process.h"
#include "common/config/executable.h"
#include "tools/dslide/child_process.h"
#include "tools/dslide/commands.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kStopGraceMs = 5000;    // for children that were asked to stop
constexpr int kLeaveGraceMs = 10000;  // for members to leave after the scheduler
constexpr int kPollMs = 50;

struct Launch {
  Config config;
  std::string config_file;
  Overrides overrides;
  std::string run_directory;
  bool resume = false;
};

// The configuration that the children get: the user's, with what a launch on one machine fills in.
Result<Launch> Prepare(const ParsedArguments& arguments) {
  Launch launch;
  launch.resume = arguments.Has("resume");
  launch.overrides = arguments.All("set");
  launch.config_file = arguments.Get("config");
  if (launch.resume && launch.config_file.empty() && arguments.Has("run-dir")) {
    launch.config_file = arguments.Get("run-dir") + "/config.ini";
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

class Launcher {
 public:
  Launcher(Launch launch, StopSignals* signals) : launch_(std::move(launch)), signals_(signals) {}
  ~Launcher() { StopAll(&children_, kStopGraceMs); }

  Status Run() {
    DSLIDE_RETURN_IF_ERROR(StartScheduler());
    const Result<std::string> address = WaitForAddress();
    DSLIDE_RETURN_IF_ERROR(address);
    DSLIDE_RETURN_IF_ERROR(StartMembers(*address));
    fmt::print(
        "cluster: 1 scheduler, {} servers, {} workers; more workers may join by\n"
        "  dslide-worker --scheduler {}\n",
        launch_.config.cluster.servers, launch_.config.cluster.workers, *address);
    std::fflush(stdout);
    return Follow();
  }

 private:
  std::string Path(const std::string& name) const { return launch_.run_directory + "/" + name; }

  Status Start(const std::string& name, const std::string& program,
               std::vector<std::string> arguments, bool share_output) {
    Result<ChildProcess> child =
        ChildProcess::Start(name, ExecutableDirectory() + "/" + program, arguments,
                            Path("logs/" + name + ".log"), share_output);
    DSLIDE_RETURN_IF_ERROR(child);
    children_.push_back(std::move(*child));
    return {};
  }

  std::vector<std::string> ConfigArguments() const {
    std::vector<std::string> arguments;
    if (!launch_.config_file.empty()) arguments = {"--config", launch_.config_file};
    for (const std::string& value : launch_.overrides) {
      arguments.push_back("--set");
      arguments.push_back(value);
    }
    return arguments;
  }

  Status StartScheduler() {
    std::error_code error;
    fs::create_directories(Path("logs"), error);
    if (error) return BadInput(fmt::format("{}: cannot create: {}", Path("logs"), error.message()));
    fs::remove(Path("scheduler.address"), error);
    std::vector<std::string> arguments = ConfigArguments();
    arguments.insert(arguments.end(), {"--run-dir", launch_.run_directory});
    if (launch_.resume) arguments.push_back("--resume");
    const auto size = fs::file_size(Path("logs/scheduler.log"), error);
    log_start_ = error ? 0 : static_cast<std::streamoff>(size);
    return Start("scheduler", "dslide-scheduler", arguments, true);
  }

  // The scheduler reads its data first, then writes the address that it listens at.
  Result<std::string> WaitForAddress() {
    while (true) {
      poll(nullptr, 0, kPollMs);
      if (signals_->Take()) return Failed("stopped before training began");
      if (children_[0].Poll()) return SchedulerFailure();
      std::ifstream file(Path("scheduler.address"));
      std::string address;
      if (std::getline(file, address)) return address;
    }
  }

  Status StartMembers(const std::string& address) {
    const ClusterConfig& cluster = launch_.config.cluster;
    for (uint32_t i = 1; i <= cluster.servers; ++i) {
      const std::string name = fmt::format("server-{}", i);
      std::vector<std::string> arguments = ConfigArguments();
      arguments.insert(arguments.end(), {"--scheduler", address, "--name", name});
      DSLIDE_RETURN_IF_ERROR(Start(name, "dslide-server", arguments, false));
    }
    for (uint32_t i = 1; i <= cluster.workers; ++i) {
      const std::string name = fmt::format("worker-{}", i);
      DSLIDE_RETURN_IF_ERROR(
          Start(name, "dslide-worker", {"--scheduler", address, "--name", name}, false));
    }
    return {};
  }

  // Until the scheduler ends. A worker may die, the others go on; without a server there is no
  // model.
  Status Follow() {
    while (true) {
      pollfd ready{signals_->fd(), POLLIN, 0};
      (void)poll(&ready, 1, kPollMs);
      if (signals_->Take()) children_[0].Signal(SIGTERM);
      children_[0].Poll();
      if (!children_[0].running()) return AfterScheduler();
      bool workers_left = false;
      for (size_t i = 1; i < children_.size(); ++i) {
        ChildProcess& child = children_[i];
        const bool is_server = i <= launch_.config.cluster.servers;
        const bool ended = child.Poll();
        workers_left |= !is_server && child.running();
        if (!ended) continue;
        if (is_server && child.exit_code() != 0 && !SchedulerEnds()) {
          return Failed(
              fmt::format("{} ended ({}), see {}; continue from the last checkpoint with "
                          "--resume --run-dir {}",
                          child.name(), child.Ending(), child.log(), launch_.run_directory));
        }
        if (!is_server && child.exit_code() != 0) {
          fmt::print("{} ended ({}), see {}; the others go on\n", child.name(), child.Ending(),
                     child.log());
          std::fflush(stdout);
        }
      }
      const bool had_workers = launch_.config.cluster.workers > 0;
      if (had_workers && !workers_left && !stopping_ && !SchedulerEnds()) {
        stopping_ = true;  // once: a second signal means at once
        children_[0].Signal(SIGTERM);
        fmt::print("all workers of this launch have ended; stopping\n");
      }
    }
  }

  // Members leave when the scheduler has told them to, a moment before it ends itself.
  bool SchedulerEnds() {
    const int64_t deadline_ms = MonotonicMillis() + kStopGraceMs;
    while (MonotonicMillis() < deadline_ms) {
      children_[0].Poll();
      if (!children_[0].running()) return true;
      poll(nullptr, 0, kPollMs);
    }
    return false;
  }

  Status AfterScheduler() {
    const int64_t deadline_ms = MonotonicMillis() + kLeaveGraceMs;
    const auto running = [&] {
      for (ChildProcess& child : children_) child.Poll();
      return std::any_of(children_.begin(), children_.end(),
                         [](const auto& c) { return c.running(); });
    };
    while (running() && MonotonicMillis() < deadline_ms) poll(nullptr, 0, kPollMs);
    if (children_[0].exit_code() != 0) return SchedulerFailure();
    fmt::print("run directory  {}\ncheckpoint     {}\nsummary        {}\n", launch_.run_directory,
               Path("checkpoint"), Path("summary.json"));
    return {};
  }

  // The scheduler's own last line, with its exit code.
  Error SchedulerFailure() {
    std::ifstream log(children_[0].log());
    log.seekg(log_start_);  // a resumed run appends to the log of its earlier life
    std::string line, last;
    const std::string mark = "dslide-scheduler: ";
    while (std::getline(log, line)) {
      if (line.starts_with(mark)) last = line.substr(mark.size());
    }
    if (last.empty()) {
      last = fmt::format("the scheduler ended ({}), see {}", children_[0].Ending(),
                         children_[0].log());
    }
    for (const ErrorKind kind :
         {ErrorKind::kBadInput, ErrorKind::kTryLater, ErrorKind::kPreempted}) {
      if (children_[0].exit_code() == ExitCode(kind)) return {kind, last};
    }
    return Failed(last);
  }

  Launch launch_;
  bool stopping_ = false;
  std::streamoff log_start_ = 0;  // of this life in the scheduler's log
  StopSignals* signals_;
  std::vector<ChildProcess> children_;  // the scheduler first, then servers, then workers
};

Status Train(const ParsedArguments& arguments) {
  Result<Launch> launch = Prepare(arguments);
  DSLIDE_RETURN_IF_ERROR(launch);
  StopSignals signals;
  return Launcher(std::move(*launch), &signals).Run();
}

}  // namespace

int TrainCommand(int argc, char** argv) {
  CommandLine line(
      "dslide train --config FILE [options]",
      "Starts a cluster on this machine, trains, and follows it to the end. Ctrl-C writes a "
      "checkpoint and stops; a second one stops at once.");
  line.Option("servers", "N", "servers to start (cluster.servers)");
  line.Option("workers", "M", "workers to start (cluster.workers)");
  line.Option("run-dir", "DIRECTORY", "where the run's files go; runs/run-N if not given");
  line.Flag("resume", "continue from the newest checkpoint of --run-dir");
  DeclareConfigOptions(&line);
  return RunExecutable("dslide train", line, argc, argv, Train);
}

}  // namespace dslide
