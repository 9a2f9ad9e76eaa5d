// Lent machines: workers that pause by their owners' policy, volunteers, dslide status --workers.
//
// The workers look at a machine of the test's own, so that whatever else runs here decides nothing.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <fmt/os.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/cluster/cluster.h"

namespace dslide::lent_test {
namespace {

// A variable of this process's environment, and so of those that it starts.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// A machine as its workers see it, and directories of a user of its own.
class FakeMachine {
 public:
  explicit FakeMachine(const std::string& directory)
      : directory_(directory),
        root_("DSLIDE_MACHINE_ROOT", directory),
        runtime_("XDG_RUNTIME_DIR", directory + "/run"),
        state_("XDG_STATE_HOME", directory + "/state") {
    std::filesystem::create_directories(directory + "/proc");
    Use(0);
  }

  // Others use this share of the CPU from now on; to be called again and again, because workers
  // see only what goes on. So much time that the worker's own does not count.
  bool Use(double share) {
    constexpr double kTicks = 1e6;
    busy_ += share * kTicks;
    idle_ += (1 - share) * kTicks;
    const std::string path = directory_ + "/proc/stat";
    {
      auto file = fmt::output_file(path + ".new");
      file.print("cpu  {:.0f} 0 0 {:.0f} 0 0 0 0 0 0\n", busy_, idle_);
    }
    std::filesystem::rename(path + ".new", path);
    return true;
  }

 private:
  std::string directory_;
  double busy_ = 0, idle_ = 0;
  Variable root_, runtime_, state_;
};

// A run that goes on until it is stopped, with a worker that is not lent, and a lent machine.
struct LentRun {
  TestRun run;
  FakeMachine machine{run.Path("machine")};
  std::unique_ptr<Process> train;

  explicit LentRun(const Arguments& more = {}) {
    Arguments arguments = {"--set", "train.epochs=1000"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    train = run.Train(arguments, kSlowly);
    REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  }
  ~LentRun() {
    if (!train->Running()) return;
    train->Signal(SIGTERM);
    (void)train->Wait();
  }

  std::unique_ptr<Process> Lend(const Arguments& more) {
    Arguments arguments = {"--scheduler", run.SchedulerAddress(), "--name", "lent"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run.Start("dslide-worker", arguments, kSlowly);
  }
  bool HasLent() const {
    const nlohmann::json status = run.Status();
    if (!status.contains("members")) return true;  // nobody can tell
    for (const auto& member : status["members"]) {
      if (member["name"] == "lent") return true;
    }
    return false;
  }
  bool TrainsWhileOthersUse(double share) {
    return WaitFor([&] { return machine.Use(share) && run.TrainedSamples("lent") > 0; });
  }
  bool LeavesWhileOthersUse(double share) {
    return WaitFor([&] { return machine.Use(share) && !HasLent(); });
  }
  nlohmann::json Workers() {
    CHECK(run.Run("dslide", {"status", "--workers", "--json"}) == 0);
    return nlohmann::json::parse(run.last_output());
  }
  bool Shows(const std::string& state) {
    const nlohmann::json shown = Workers();
    return shown["workers"].size() == 1 && shown["workers"][0]["state"] == state;
  }
};

// To be waited for: the scheduler and the published state may tell of a pause before the log does.
bool Says(const Process& worker, const std::string& text) {
  return WaitFor([&] { return Contains(worker.Errors(), text); });
}

void WriteText(const std::string& path, const std::string& text) {
  auto file = fmt::output_file(path);
  file.print("{}", text);
}

TEST_CASE("lent: a competitor comes, the worker hands its leases back, and goes on afterwards") {
  LentRun lent;
  const auto worker = lent.Lend({"--idle"});
  REQUIRE(lent.TrainsWhileOthersUse(0.1));
  REQUIRE(lent.LeavesWhileOthersUse(0.9));
  CHECK(worker->Running());
  CHECK(Says(*worker, "pauses: others use 90 % of the CPU"));
  const std::string log = ReadFile(lent.run.run_directory() + "/logs/scheduler.log");
  CHECK(Contains(log, "[worker.gone] lent left"));
  CHECK_FALSE(Contains(log, "[worker.gone] lent is silent"));

  // The other worker trains on, and gets what was handed back long before a lease expires.
  const double before = lent.run.TrainedSamples("worker-1");
  CHECK(WaitFor([&] {
    return lent.machine.Use(0.9) && lent.run.TrainedSamples("worker-1") > before + kSamples;
  }));
  CHECK_FALSE(lent.HasLent());

  REQUIRE(WaitFor([&] { return lent.machine.Use(0) && lent.HasLent(); }));
  REQUIRE(lent.TrainsWhileOthersUse(0));
  worker->Signal(SIGTERM);
  CHECK(worker->Wait() == 0);
  lent.train->Signal(SIGTERM);
  CHECK(lent.train->Wait() == 85);
  CHECK(lent.run.Run("dslide", {"ledger", "verify", lent.run.run_directory()}) == 0);
}

TEST_CASE("lent: SIGHUP reads the policy again, and a bad one leaves the old one") {
  LentRun lent;
  const std::string policy = lent.run.Path("policy.ini");
  WriteText(policy, "[idle]\npause_cpu_percent = 25\n");
  const auto worker = lent.Lend({"--config", policy});
  REQUIRE(WaitFor([&] { return lent.machine.Use(0.5) && Contains(worker->Errors(), "pauses: "); }));

  WriteText(policy, "[idle]\npause_cpu_percent = 0\n");
  worker->Signal(SIGHUP);
  REQUIRE(lent.TrainsWhileOthersUse(0.5));
  CHECK(Contains(worker->Errors(),
                 "[host.policy] the policy now: idle priority, pauses on battery\n"));

  WriteText(policy, "[idle]\ncpu_share = 0\npause_cpu_percent = 25\n");
  worker->Signal(SIGHUP);
  const std::string refused =
      policy + ":2: idle.cpu_share = 0: must be 1 to 100; the policy stays as it was\n";
  REQUIRE(Says(*worker, refused));
  const double before = lent.run.TrainedSamples("lent");
  CHECK(WaitFor(
      [&] { return lent.machine.Use(0.5) && lent.run.TrainedSamples("lent") > before + 1000; }));

  WriteText(policy, "[idle]\npause_cpu_percent = 25\n");
  worker->Signal(SIGHUP);
  CHECK(lent.LeavesWhileOthersUse(0.5));
  worker->Signal(SIGTERM);
  CHECK(worker->Wait() == 0);
}

TEST_CASE("lent: dslide status --workers shows running and paused workers, and none that is dead") {
  LentRun lent;
  CHECK(lent.Workers()["workers"].empty());
  CHECK(lent.run.Run("dslide", {"status", "--workers"}) == 0);
  CHECK(Contains(lent.run.last_output(), "no lent worker of this user runs"));

  const auto worker = lent.Lend({"--idle", "--set", "idle.upload_kbit=100000"});
  REQUIRE(lent.TrainsWhileOthersUse(0));
  REQUIRE(WaitFor([&] { return lent.machine.Use(0) && lent.Shows("running"); }));
  nlohmann::json shown;
  REQUIRE(WaitFor([&] {
    shown = lent.Workers();
    return lent.machine.Use(0) && shown["workers"][0]["samples"] > 0;
  }));
  CHECK(shown["workers"][0]["pid"] == worker->pid());
  CHECK(shown["workers"][0]["name"] == "lent");
  CHECK(shown["workers"][0]["scheduler"] == lent.run.SchedulerAddress());
  CHECK(shown["workers"][0]["upload_kbit"] == 100000);

  REQUIRE(WaitFor([&] { return lent.machine.Use(1) && lent.Shows("paused"); }));
  shown = lent.Workers();
  CHECK(shown["workers"][0]["why"] == "others use 100 % of the CPU");
  CHECK(shown["today"]["samples"] > 0);
  CHECK(shown["today"]["bytes_sent"] > 0);
  CHECK(shown["today"]["cpu_seconds"] > 0);
  CHECK(shown["ever"] == shown["today"]);
  CHECK(lent.run.Run("dslide", {"status", "--workers"}) == 0);
  CHECK(Contains(lent.run.last_output(), "others use 100 % of the CPU"));
  CHECK(Contains(lent.run.last_output(), "up 100000 kbit/s, down any, a day any"));

  worker->Signal(SIGKILL);
  (void)worker->Wait();
  const std::string states = lent.run.Path("machine/run/dslide");
  CHECK_FALSE(std::filesystem::is_empty(states));
  shown = lent.Workers();
  CHECK(shown["workers"].empty());
  CHECK(shown["ever"]["samples"] > 0);  // the account outlives the worker
  CHECK(std::filesystem::is_empty(states));
}

TEST_CASE("lent: the day's transfer counts over restarts") {
  LentRun lent;
  const Arguments cap = {"--set", "idle.daily_transfer_mb=1"};
  const auto first = lent.Lend(cap);
  REQUIRE(lent.TrainsWhileOthersUse(0));
  REQUIRE(WaitFor([&] { return lent.machine.Use(0) && lent.Shows("paused"); }));
  CHECK(Says(*first, "1 MB were sent and received today"));
  CHECK(lent.Workers()["workers"][0]["until"] > 0);
  first->Signal(SIGTERM);
  CHECK(first->Wait() == 0);
  const auto second = lent.Lend(cap);
  REQUIRE(
      WaitFor([&] { return lent.machine.Use(0) && Contains(second->Errors(), "pauses until"); }));
  CHECK_FALSE(Contains(second->Errors(), "[scheduler.join]"));
  second->Signal(SIGTERM);
  CHECK(second->Wait() == 0);
}

TEST_CASE("lent: a volunteer outlives the scheduler, and ends with the run") {
  const std::string address = Loopback(FreePort());
  const Arguments bind = {"--set", "cluster.scheduler_bind=" + address};
  LentRun lent(bind);
  const auto volunteer = lent.run.Start("dslide-worker", {address, "--name", "lent"}, kSlowly);
  REQUIRE(lent.TrainsWhileOthersUse(0));
  const double trained = lent.run.TrainedSamples();
  lent.train->Signal(SIGTERM);
  CHECK(lent.train->Wait() == 85);
  REQUIRE(
      WaitFor([&] { return lent.machine.Use(0) && Contains(volunteer->Errors(), "[host.wait]"); }));
  CHECK(volunteer->Running());

  const int epochs = static_cast<int>(trained / kSamples) + 4;
  Arguments resumed = {"--resume", "--set", fmt::format("train.epochs={}", epochs)};
  resumed.insert(resumed.end(), bind.begin(), bind.end());
  lent.train = lent.run.Train(resumed, kSlowly);
  REQUIRE(lent.TrainsWhileOthersUse(0));
  CHECK(WaitFor([&] { return lent.machine.Use(0) && !lent.train->Running(); }));
  CHECK(lent.train->Wait() == 0);
  CHECK(volunteer->Wait() == 0);
  CHECK(lent.run.Run("dslide", {"ledger", "verify", lent.run.run_directory()}) == 0);
}

TEST_CASE("lent: what cannot be kept is refused") {
  TestRun run;
  const FakeMachine machine(run.Path("machine"));
  const auto refused = [&](const std::string& program, const Arguments& arguments) {
    CHECK(run.Run(program, arguments) == 2);
    const std::string& errors = run.last_errors();
    CHECK(errors.find('\n') == errors.size() - 1);
    return errors;
  };
  const Arguments scheduler = {"--scheduler", "tcp://127.0.0.1:1"};
  const auto with = [&](const std::string& setting) {
    Arguments arguments = scheduler;
    arguments.insert(arguments.end(), {"--set", setting});
    return arguments;
  };
  CHECK(refused("dslide-server", with("idle.hours=18:00-08:00")) ==
        "dslide-server: idle.hours = 18:00-08:00: a server owns a part of the model and cannot "
        "pause; leave the key out, or lend this machine to a worker\n");
  CHECK(refused("dslide-worker", with("idle.hours=18-8")) ==
        "dslide-worker: command line: idle.hours = 18-8: must be always, or hours such as "
        "18:00-08:00 or mon-fri 18:00-08:00, sat-sun 00:00-24:00\n");
  CHECK(Contains(refused("dslide-worker", with("idle.cores=-1")), "idle.cores = -1: must be 0 to"));
  CHECK(Contains(refused("dslide-worker", with("idle.memory_mb=1")),
                 "idle.memory_mb = 1: must be 0, or 64 to"));
  CHECK(Contains(refused("dslide-worker", with("idle.hour=always")), "did you mean idle.hours?"));
  CHECK(Contains(refused("dslide-server", with("idle.cpu_share=50")), "idle.cpu_share = 50: a "));
  Arguments small = with("cluster.memory_mb=100");
  small.insert(small.end(), {"--set", "idle.memory_mb=64"});
  CHECK(Contains(refused("dslide-server", small),
                 "cluster.memory_mb = 100: idle.memory_mb allows the whole process 64"));
  for (const char* program : {"dslide-scheduler", "dslide"}) {
    Arguments arguments = {"--config",          run.config(), "--run-dir",
                           run.run_directory(), "--set",      "idle.cpu_share=50"};
    if (std::string(program) == "dslide") arguments.insert(arguments.begin(), "train");
    CHECK(Contains(refused(program, arguments), "are for the owner of a lent machine"));
  }
  CHECK(
      Contains(refused("dslide-worker", {"tcp://127.0.0.1:1", "--scheduler", "tcp://127.0.0.1:2"}),
               "the scheduler is given twice"));
}

}  // namespace
}  // namespace dslide::lent_test
