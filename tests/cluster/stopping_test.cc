// A run that is stopped or killed saves what it can and leaves no process behind.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/checkpoint/manifest.h"
#include "tests/cluster/cluster.h"
#include "tests/support/results.h"

namespace dslide::stopping_test {
namespace {

constexpr int kGoneMs = 30000;

bool AllGone(const std::vector<pid_t>& processes) {
  return std::all_of(processes.begin(), processes.end(), IsGone);
}

TEST_CASE("Ctrl-C writes a checkpoint, which the run continues from") {
  TestRun run;
  const std::string epochs = "train.epochs=4";
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", epochs}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const auto children = Descendants(train->pid());
  CHECK(children.size() == 5);
  train->Signal(SIGINT);
  REQUIRE(train->Wait() == 85);
  CHECK(AllGone(children));
  const nlohmann::json first = run.Summary();

  const auto checkpoint = FindCheckpoint(run.run_directory() + "/checkpoint");
  REQUIRE(checkpoint.ok());
  const auto manifest = Ok(ReadManifest(*checkpoint));
  CHECK(manifest.samples > 0);
  CHECK(manifest.samples < 4 * kSamples);

  const auto resumed = run.Train({"--resume", "--servers", "2", "--workers", "2", "--set", epochs});
  REQUIRE(resumed->Wait() == 0);
  const nlohmann::json both = run.Summary();
  CHECK(both["samples"] == 4 * kSamples);
  CHECK(both["whole_run"] == true);
  // Time and samples are those of both lives.
  CHECK(both["train_seconds"] > first["train_seconds"]);
  CHECK(both["samples_per_second"].get<double>() * both["train_seconds"].get<double>() >=
        4 * kSamples - 1);
}

TEST_CASE("begin-or-resume begins a run and goes on with it, and members ask to be started again") {
  TestRun run;
  const std::string address = Loopback(FreePort());
  const auto scheduler = [&] {
    return run.Start(
        "dslide-scheduler",
        {"--config", run.config(), "--run-dir", run.run_directory(), "--begin-or-resume", "--set",
         "cluster.scheduler_bind=" + address, "--set", "train.epochs=4"},
        kSlowly);
  };
  const std::string file = "file://" + run.run_directory() + "/scheduler.address";
  const auto first = scheduler();
  REQUIRE(WaitFor([&] { return !run.SchedulerAddress().empty(); }));
  const auto server = run.Start("dslide-server", {"--scheduler", file});
  const auto worker = run.Start("dslide-worker", {"--scheduler", file}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  first->Signal(SIGTERM);
  CHECK(first->Wait() == 85);
  CHECK(server->Wait() == 85);
  CHECK(worker->Wait() == 85);
  const auto second = scheduler();
  const auto server_again = run.Start("dslide-server", {"--scheduler", file});
  const auto worker_again = run.Start("dslide-worker", {"--scheduler", file});
  CHECK(second->Wait() == 0);
  CHECK(server_again->Wait() == 0);
  CHECK(worker_again->Wait() == 0);
  CHECK(run.Summary()["samples"] == 4 * kSamples);
}

TEST_CASE("a run that was stopped before training began can begin again in its directory") {
  TestRun run;
  const auto scheduler =
      run.Start("dslide-scheduler", {"--config", run.config(), "--run-dir", run.run_directory(),
                                     "--set", "cluster.scheduler_bind=" + Loopback(FreePort())});
  REQUIRE(WaitFor([&] { return !run.SchedulerAddress().empty(); }));
  scheduler->Signal(SIGTERM);
  REQUIRE(scheduler->Wait() == 75);
  const auto train = run.Train({"--set", "train.epochs=1", "--set", "train.learning_rate=0.02"});
  REQUIRE(train->Wait() == 0);
  CHECK(run.Summary()["samples"] == kSamples);
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  const auto again = run.Train();
  CHECK(again->Wait() == 2);
  CHECK(Contains(again->Errors(), "holds the ledger of an earlier run"));
}

// The files that a process writes its output to, as pipes that the test can close.
class Pipe {
 public:
  explicit Pipe(const std::string& path) {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    fd_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(fd_ >= 0);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

TEST_CASE("a terminal that closes stops a run like Ctrl-C") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=1000"});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const auto children = Descendants(train->pid());
  train->Signal(SIGHUP);
  REQUIRE(train->Wait() == 85);
  CHECK(AllGone(children));
  CHECK(FindCheckpoint(run.run_directory() + "/checkpoint").ok());
}

TEST_CASE("each role takes SIGHUP for SIGTERM") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=1000"});
  REQUIRE(WaitFor([&] { return run.TrainedSamples("worker-2") > 0; }));
  auto children = Descendants(train->pid());
  std::sort(children.begin(), children.end());  // as they were started
  REQUIRE(children.size() == 5);
  const pid_t scheduler = children[0], server = children[2], worker = children[4];
  kill(worker, SIGHUP);
  REQUIRE(WaitFor([&] { return IsGone(worker); }));
  CHECK(Contains(run.WorkerLog(2), "[process.stop]"));
  CHECK(!Contains(train->Output(), "worker-2 ended"));  // ended with 0: it was told to stop
  kill(server, SIGHUP);
  REQUIRE(WaitFor([&] { return IsGone(server); }));
  CHECK(!Contains(train->Output(), "server-2 ended"));  // ended with 0: server-1 has its slots
  kill(scheduler, SIGHUP);
  CHECK(train->Wait() == 85);
  CHECK(FindCheckpoint(run.run_directory() + "/checkpoint").ok());
}

TEST_CASE("a run goes on when the pipes close that it writes its output to") {
  TestRun run;
  Pipe output(run.Path("dslide-1.out")), errors(run.Path("dslide-1.err"));
  const auto train = run.Train({"--set", "train.epochs=4"}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  output.Close();
  errors.Close();
  REQUIRE(train->Wait() == 0);
  CHECK(run.Summary()["samples"] == 4 * kSamples);
}

TEST_CASE("processes go on when the pipes close that they log to") {
  TestRun run;
  const std::string address = Loopback(FreePort());
  std::vector<std::unique_ptr<Pipe>> pipes;
  std::vector<std::unique_ptr<Process>> processes;
  const auto start = [&](const std::string& program, const Arguments& arguments) {
    const std::string log = run.Path(fmt::format("{}-{}", program, processes.size() + 1));
    pipes.push_back(std::make_unique<Pipe>(log + ".out"));
    pipes.push_back(std::make_unique<Pipe>(log + ".err"));
    processes.push_back(run.Start(program, arguments, kSlowly));
  };
  start("dslide-scheduler", {"--config", run.config(), "--run-dir", run.run_directory(), "--set",
                             "cluster.scheduler_bind=" + address, "--set", "train.epochs=4"});
  start("dslide-server", {"--scheduler", address});
  start("dslide-worker", {"--scheduler", address});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  for (const auto& pipe : pipes) pipe->Close();
  for (const auto& process : processes) CHECK(process->Wait() == 0);
  CHECK(run.Summary()["samples"] == 4 * kSamples);
}

// As a service manager or the end of a batch job does it.
TEST_CASE(
    "SIGTERM to all processes while a checkpoint is being written ends them with a last one") {
  TestRun run;
  const std::string paused = run.Path("paused");
  const auto scheduler =
      run.Start("dslide-scheduler", {"--config", run.config(), "--run-dir", run.run_directory(),
                                     "--set", "train.epochs=1000", "--set", "cluster.servers=2",
                                     "--set", "checkpoint.interval_s=1"});
  REQUIRE(WaitFor([&] { return !run.SchedulerAddress().empty(); }));
  const Arguments join = {"--scheduler", run.SchedulerAddress()};
  std::vector<std::unique_ptr<Process>> members;
  members.push_back(run.Start("dslide-server", join));
  members.push_back(
      run.Start("dslide-server", join, "server.mid-checkpoint=pause:" + paused + "@2"));
  members.push_back(run.Start("dslide-worker", join));
  REQUIRE(WaitFor([&] { return std::filesystem::exists(paused); }));
  const auto batches_saved = [&] {
    const auto checkpoint = FindCheckpoint(run.run_directory() + "/checkpoint");
    REQUIRE(checkpoint.ok());
    const auto manifest = Ok(ReadManifest(*checkpoint));
    return manifest.batches;
  };
  const uint64_t before = batches_saved();
  scheduler->Signal(SIGTERM);
  for (const auto& member : members) member->Signal(SIGTERM);
  std::filesystem::remove(paused);
  CHECK(scheduler->Wait(kGoneMs) == 85);
  for (const auto& member : members) CHECK(member->Wait(kGoneMs).has_value());
  CHECK(batches_saved() > before);
}

TEST_CASE("no process outlives a launcher that is killed") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=1000"});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const auto children = Descendants(train->pid());
  REQUIRE(children.size() == 5);
  train->Signal(SIGKILL);
  CHECK(train->Wait() == -SIGKILL);
  CHECK(WaitFor([&] { return AllGone(children); }, kGoneMs));
}

}  // namespace
}  // namespace dslide::stopping_test
