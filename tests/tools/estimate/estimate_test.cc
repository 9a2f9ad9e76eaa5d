// Estimates are compared with figures worked out by hand and with the scheduler's own check.
#include "tools/dslide/estimate/estimate.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "scheduler/plan/memory_check.h"
#include "scheduler/status/run_costs.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::estimate_test {
namespace {

constexpr uint64_t kMb = uint64_t{1} << 20;
constexpr uint32_t kFeatures = 50000, kLabels = 20000, kBatch = 100;

EstimatedTask Task() {
  EstimatedTask task;
  task.config.model.hidden = 64;
  task.config.train.batch = kBatch;
  task.config.train.epochs = 2;
  task.config.cluster.executors = 1;
  task.config.cluster.disk_tier = "off";
  ResolveConfig(kFeatures, kLabels, &task.config);
  task.samples = 100000;
  return task;
}

// One server and one worker, of which a server takes 80 us of CPU a sample and a worker 20.
MeasuredRun Measured() {
  MeasuredRun run;
  run.server = {1, 80, 100 * kMb};
  run.worker = {1, 20, 30 * kMb};
  run.scheduler = {1, 0, 50 * kMb};
  run.share = 0.5;
  run.batches = 1000;
  run.bytes = {
      {"ActiveQuery", 100}, {"GradientReply", 150}, {"EmbedPush", 300}, {"EmbedReply", 128}};
  run.lease_bytes = 200;
  return run;
}

TEST_CASE("estimate: the busiest station bounds the speed, and so do few batches in flight") {
  const std::vector<Station> stations = {{"CPU of servers", 0.010}, {"CPU of workers", 0.002}};
  const Throughput two = ThroughputOf(stations, 0.012, 2, true);
  CHECK(two.bottleneck == "CPU of servers");
  CHECK(two.high == doctest::Approx(1 / 0.010));
  CHECK(two.low == doctest::Approx(2 / (0.012 + 0.010)));
  // One batch in flight has nothing to wait for.
  const Throughput one = ThroughputOf(stations, 0.012, 1, false);
  CHECK(one.high == doctest::Approx(1 / 0.012));
  CHECK(one.low == doctest::Approx(1 / 0.012));
  // A long way: two batches do not keep the server busy, as many as are needed do.
  CHECK(ThroughputOf(stations, 0.1, 2, false).high == doctest::Approx(2 / 0.1));
  CHECK(ThroughputOf(stations, 0.1, 2, true).high == doctest::Approx(1 / 0.010));
  CHECK(ThroughputOf(stations, 0.012, 1000, true).low == doctest::Approx(100).epsilon(0.001));
}

TEST_CASE("estimate: memory of the model, as by hand and as the scheduler checks it") {
  const EstimatedTask task = Task();
  Machines machines;
  machines.memory_bytes = 1024 * kMb;
  const ExactFigures one = ExactFiguresOf(task.config, machines);
  CHECK(one.parameters == 64u * 50001 + 20000u * 65);
  // bf16 with AdaGrad: 2 bytes a weight and 16 a row; a neuron has 13 more for its mass.
  CHECK(one.model_bytes == 50001u * (64 * 2 + 16) + 20000u * (64 * 2 + 16 + 13));
  CHECK(one.most_rows_bytes == one.model_bytes);
  CHECK(one.why_too_small.empty());
  machines.servers = 4;
  machines.mbit = 100;
  CHECK(ExactFiguresOf(task.config, machines).most_rows_bytes >= one.model_bytes / 4);
  CHECK(ExactFiguresOf(task.config, machines).most_rows_bytes < one.model_bytes);

  // The model has 10 MB.
  machines.servers = 2;
  machines.memory_bytes = 5 * kMb;  // of which 4 are for rows
  Config config = task.config;
  config.cluster.servers = 2;
  const ExactFigures small = ExactFiguresOf(task.config, machines);
  CHECK(small.allowed_bytes == 4 * kMb);
  CHECK(small.why_too_small == WhyAllTooSmall(4 * kMb, config));
  CHECK_FALSE(small.why_too_small.empty());
  machines.servers = 4;
  CHECK(ExactFiguresOf(task.config, machines).why_too_small.empty());
  // On one machine the servers share the same memory.
  machines.mbit = 0;
  CHECK_FALSE(ExactFiguresOf(task.config, machines).why_too_small.empty());
}

TEST_CASE("estimate: the cluster that was measured, on a machine with as many cores as wanted") {
  Machines machines;
  machines.cores = 16;
  machines.memory_bytes = 8192 * kMb;
  const Estimate e = EstimateRun(Task(), machines, Measured());
  CHECK(e.server_bytes == 100 * kMb);
  CHECK(e.worker_bytes == 30 * kMb);
  CHECK(e.bytes_sent == 400);
  CHECK(e.bytes_received == 278);
  CHECK(e.core_samples_per_second == doctest::Approx(10000));
  CHECK(e.bottleneck == "CPU of servers");
  CHECK(e.high == doctest::Approx(1e6 / 80));
  CHECK(e.low == doctest::Approx(2e6 / (100 + 80)));
  CHECK(e.likely == doctest::Approx(std::sqrt(e.low * e.high)));
  CHECK(e.seconds == doctest::Approx(200000 / e.likely));
  // Cores of half the speed, and one core for all.
  machines.core_rate = 5000;
  CHECK(EstimateRun(Task(), machines, Measured()).high == doctest::Approx(1e6 / 160));
  machines.core_rate = 0;
  machines.cores = 1;
  CHECK(EstimateRun(Task(), machines, Measured()).bottleneck == "CPU of this machine");
}

TEST_CASE("estimate: more servers get a matrix each, and parts of the features and rows") {
  Machines machines{4, 8, 1000, 2, 8192 * kMb, 0};
  const EstimatedTask task = Task();
  const Estimate e = EstimateRun(task, machines, Measured());
  // By the first slot plan one of the four has the input rows, and three or four have neurons.
  CHECK(e.bytes_received > 128 + 3 * 150 - 1);
  CHECK(e.bytes_received < 128 + 4 * 150 + 1);
  CHECK(e.bytes_sent > 300 + 3 * 100 - 1);
  CHECK(e.bytes_sent < 300 + 4 * 100 + 1);
  CHECK(e.server_cpu_us == doctest::Approx(80));
  CHECK(e.bottleneck == "CPU of servers");
  CHECK(e.high == doctest::Approx(4e6 / 80));
  machines.mbit = 10;
  const Estimate slow = EstimateRun(task, machines, Measured());
  CHECK(slow.bottleneck == "links of servers");
  CHECK(slow.high < e.high / 4);
  CHECK(slow.link_busy > 0.5);
  machines.workers = 1;
  CHECK(EstimateRun(task, machines, Measured()).bottleneck == "links of workers");
}

TEST_CASE("estimate: a synchronous run has as many batches in flight as a step") {
  Machines machines;
  machines.cores = 16;
  machines.memory_bytes = 8192 * kMb;
  EstimatedTask task = Task();
  task.config.train.staleness = 0;
  task.config.train.target_batch = kBatch;
  CHECK(EstimateRun(task, machines, Measured()).high == doctest::Approx(1e6 / 100));
  task.config.train.target_batch = 4 * kBatch;
  CHECK(EstimateRun(task, machines, Measured()).high == doctest::Approx(1e6 / 80));
}

class Directory {
 public:
  std::string path() const { return directory_.path(); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path() + "/" + name, std::ios::binary) << text;
  }
  // Records after each 10,000 samples, with `bytes`. A server takes 60 us a sample, a worker 0.
  void WriteRecords(const std::vector<int>& bytes, const std::string& processes) const {
    std::string lines = "{\"event\":\"start\",\"elapsed_s\":0.0}\n";
    for (size_t i = 1; i <= bytes.size(); ++i) {
      lines += fmt::format(R"({{"event":"progress","elapsed_s":{},"samples":{},)"
                           R"("bytes_per_sample_by_message":{{"EmbedPush":{}}})",
                           i, 10'000 * i, bytes[i - 1]);
      if (!processes.empty()) {
        lines += fmt::format(R"(,"processes":{{"server":{{"count":2,"cpu_seconds":{}{})",
                             10 + 0.6 * static_cast<double>(i), processes);
      }
      lines += "}\n";
    }
    Write("metrics.jsonl", lines);
  }

 private:
  TempDirectory directory_;
};
constexpr const char* kProcesses =
    R"(,"peak_rss_mb":80.5},"worker":{"count":1,"cpu_seconds":4,"peak_rss_mb":20},)"
    R"("scheduler":{"count":1,"cpu_seconds":1,"peak_rss_mb":40}})";

TEST_CASE("estimate: the records of a run give CPU time, memory and bytes of the processes") {
  const Directory run;
  run.WriteRecords({900, 600, 300, 300}, kProcesses);
  run.Write(kTotalsName, FormatCosts({}));
  const MeasuredRun measured = Ok(ReadMeasuredRun(run.path(), Task()));
  CHECK(measured.server.count == 2);
  CHECK(measured.server.cpu_us == doctest::Approx(60));
  CHECK(measured.server.peak_bytes == 80 * kMb + kMb / 2);
  CHECK(measured.worker.cpu_us == 0);
  CHECK(measured.share == doctest::Approx(0.2));
  CHECK(measured.batches == doctest::Approx(400));
  // 525 in the first fifth, then as in its last half.
  CHECK(measured.bytes.at("EmbedPush") == doctest::Approx(0.2 * 525 + 0.8 * 300));
  CHECK(RecordedSeconds(run.path()) == doctest::Approx(3));
}

TEST_CASE("estimate: a directory without such records is refused") {
  const Directory run;
  CHECK_FALSE(ReadMeasuredRun(run.path(), Task()).ok());
  CHECK(RecordedSeconds(run.path()) == 0);
  run.WriteRecords({300, 300}, "");
  run.Write(kTotalsName, FormatCosts({}));
  const auto earlier = ReadMeasuredRun(run.path(), Task());
  REQUIRE_FALSE(earlier.ok());
  CHECK(earlier.error().message.find("earlier version") != std::string::npos);
  CHECK_FALSE(ReadTask(run.path()).ok());
}

}  // namespace
}  // namespace dslide::estimate_test
