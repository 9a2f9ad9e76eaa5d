// Workers that have the training file get leases by sample numbers, and train the same batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "tests/cluster/cluster.h"

namespace dslide::local_data_test {
namespace {

// A scheduler and a server that wait for workers, started by hand because the launcher's workers
// have no file of their own.
struct Cluster {
  explicit Cluster(TestRun* run, const Arguments& settings = {}) : address(Loopback(FreePort())) {
    const Arguments arguments = {"--config",  run->config(),
                                 "--run-dir", run->run_directory(),
                                 "--set",     "cluster.scheduler_bind=" + address,
                                 "--set",     "train.staleness=0",
                                 "--set",     "cluster.wire=bf16"};
    scheduler = run->Start("dslide-scheduler", With(arguments, settings));
    server = run->Start("dslide-server", {"--config", run->config(), "--scheduler", address});
  }
  void CheckFinished() const {
    CHECK(scheduler->Wait() == 0);
    CHECK(server->Wait() == 0);
  }

  std::string address;
  std::unique_ptr<Process> scheduler, server;
};

// The summary of a run of one server and one worker, which gets `more` arguments.
nlohmann::json TrainWith(TestRun* run, const Arguments& more, const Arguments& settings = {}) {
  const Cluster cluster(run, settings);
  Arguments arguments = {"--scheduler", cluster.address};
  arguments.insert(arguments.end(), more.begin(), more.end());
  CHECK(run->Run("dslide-worker", arguments) == 0);
  cluster.CheckFinished();
  return run->Summary();
}

TEST_CASE("a worker with the training file trains the same batches from leases without samples") {
  TestRun sent, local;
  const nlohmann::json with_samples = TrainWith(&sent, {});
  const nlohmann::json by_numbers = TrainWith(&local, {"--data", local.Path("train.txt")});
  CHECK(by_numbers["samples"] == 3 * kSamples);
  for (const char* key : {"samples", "loss", "p_at_1", "p_at_5", "active_rows_per_batch"}) {
    CAPTURE(key);
    CHECK(by_numbers[key] == with_samples[key]);
  }
  const double bytes_sent = with_samples["lease_bytes_per_sample"];
  const double bytes_local = by_numbers["lease_bytes_per_sample"];
  CAPTURE(bytes_sent);
  CAPTURE(bytes_local);
  CHECK(bytes_sent > 15);  // three features and a label
  CHECK(bytes_local > 0);
  CHECK(bytes_local < bytes_sent / 2);  // the rest are leases, of fewer batches on a busy machine
}

TEST_CASE("a worker with the training file leaves out the samples that the run holds out") {
  TestRun sent, local;
  const Arguments held_out = {"--set", "train.heldout=150"};
  const nlohmann::json with_samples = TrainWith(&sent, {}, held_out);
  const nlohmann::json by_numbers =
      TrainWith(&local, {"--data", local.Path("train.txt")}, held_out);
  CHECK(by_numbers["samples"] == 3 * (kSamples - 150));
  for (const char* key : {"samples", "loss", "p_at_1", "held_out"}) {
    CAPTURE(key);
    CHECK(by_numbers[key] == with_samples[key]);
  }
}

TEST_CASE("a worker refuses a training file that is not the run's") {
  TestRun run;
  const Cluster cluster(&run);
  const auto refused = [&](const std::string& path, const std::string& names) {
    CHECK(run.Run("dslide-worker", {"--scheduler", cluster.address, "--data", path}) == 2);
    const std::string& errors = run.last_errors();
    CAPTURE(errors);
    CHECK(errors.find("dslide-worker: " + path + ":") != std::string::npos);
    CHECK(errors.find(names) != std::string::npos);
    CHECK(errors.find("[scheduler.join]") == std::string::npos);
  };
  std::string text = ReadFile(run.Path("train.txt"));
  const size_t value = text.rfind(":0.5 ");
  REQUIRE(value != std::string::npos);
  std::ofstream(run.Path("changed.txt")) << text.replace(value, 5, ":0.6 ");
  refused(run.Path("changed.txt"), "other samples than those that the run trains on");
  refused(run.Path("test.txt"), "500 samples, but the run trains on 6000");
  refused(run.Path("absent.txt"), "cannot open");
  // No refused worker is left behind, and the run goes on without them.
  REQUIRE(run.Run("dslide-worker",
                  {"--scheduler", cluster.address, "--data", run.Path("train.txt")}) == 0);
  cluster.CheckFinished();
  CHECK(run.Summary()["samples"] == 3 * kSamples);
}

}  // namespace
}  // namespace dslide::local_data_test
