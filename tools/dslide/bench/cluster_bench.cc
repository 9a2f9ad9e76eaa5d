#include "tools/dslide/bench/cluster_bench.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/process.h"
#include "common/base/temporary_directory.h"
#include "common/math/median.h"
#include "tools/dslide/cluster/train_child.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Length of a run: long enough to leave out its first seconds, when memory is touched first.
constexpr double kSeconds = 20;

Status WriteData(const EngineBenchOptions& options, const std::string& path) {
  std::ofstream file(path);
  if (!file) return Failed(fmt::format("{}: cannot be written", path));
  file << kGeneratedBatches * options.config.train.batch << ' ' << options.features << ' '
       << options.labels << '\n';
  for (uint32_t number = 0; number < kGeneratedBatches; ++number) {
    const LeaseBatch batch = GenerateBatch(options, number);
    for (uint32_t i = 0; i < batch.features.rows(); ++i) {
      const char* separator = "";
      for (const uint32_t label : batch.labels.Ids(i)) {
        file << std::exchange(separator, ",") << label;
      }
      const auto features = batch.features.Ids(i);
      for (size_t f = 0; f < features.size(); ++f) {
        file << ' ' << features[f] << ':' << batch.features.Values(i)[f];
      }
      file << '\n';
    }
  }
  if (!file.flush()) return Failed(fmt::format("{}: writing failed; is the disk full?", path));
  return {};
}

struct ClusterRun {
  double samples_per_second;
  Json summary;
};

// The speed between the first and the last progress report.
Result<double> SteadyRate(const std::string& metrics) {
  std::ifstream file(metrics);
  std::vector<std::pair<double, double>> reports;  // seconds, samples
  for (std::string line; std::getline(file, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded() || event.value("event", "") != "progress") continue;
    reports.emplace_back(event["elapsed_s"], event["samples"]);
  }
  if (reports.size() < 2) return Failed("the cluster's run was too short to be measured");
  return (reports.back().second - reports.front().second) /
         (reports.back().first - reports.front().first);
}

Result<ClusterRun> Train(const EngineBenchOptions& options, const Overrides& overrides,
                         const TemporaryDirectory& directory, uint32_t epochs,
                         StopSignals* signals) {
  const std::string run = directory.path() + "/run";
  std::vector<std::string> arguments = {"--servers", "1", "--workers", "1", "--run-dir", run};
  Overrides settings = overrides;
  settings.push_back("train.data=" + directory.path() + "/train.txt");
  settings.push_back(fmt::format("train.epochs={}", epochs));
  settings.push_back("train.heldout=0");  // nothing but training is measured
  settings.push_back(fmt::format("train.batch={}", options.config.train.batch));
  settings.push_back(fmt::format("cluster.executors={}", options.threads));
  for (const std::string& setting : settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  const Result<TrainOutcome> ended = RunTrain(
      "train", arguments, directory.path() + "/log", [] { return false; }, signals);
  DSLIDE_RETURN_IF_ERROR(ended);
  if (ended->interrupted) return Failed("stopped");
  std::ifstream file(run + "/summary.json");
  Json summary = Json::parse(file, nullptr, false);
  if (ended->exit_code != 0 || summary.is_discarded()) {
    return Failed("the cluster ended: " + ended->reason);
  }
  const Result<double> rate = SteadyRate(run + "/metrics.jsonl");
  DSLIDE_RETURN_IF_ERROR(rate);
  std::error_code ignored;
  fs::remove_all(run, ignored);
  return ClusterRun{*rate, std::move(summary)};
}

}  // namespace

Result<ClusterBenchResult> RunClusterBench(const EngineBenchOptions& options,
                                           const Overrides& overrides) {
  StopSignals signals;
  const TemporaryDirectory directory("dslide-bench-");
  if (!directory.ok()) return Failed("no temporary directory can be made; set TMPDIR");
  DSLIDE_RETURN_IF_ERROR(WriteData(options, directory.path() + "/train.txt"));
  EngineBenchOptions once = options;
  once.repeats = 1;
  std::vector<double> rates, engine_rates, shares, rows, engine_rows, sent, received;
  for (uint32_t r = 0; r < options.repeats; ++r) {
    const EngineBenchResult engine = RunEngineBench(once);
    if (signals.Take()) return Failed("stopped");
    const double samples_an_epoch = double{kGeneratedBatches} * options.config.train.batch;
    const auto epochs =
        static_cast<uint32_t>(1 + kSeconds * engine.samples_per_second / samples_an_epoch);
    const Result<ClusterRun> run = Train(options, overrides, directory, epochs, &signals);
    DSLIDE_RETURN_IF_ERROR(run);
    rates.push_back(run->samples_per_second);
    engine_rates.push_back(engine.samples_per_second);
    shares.push_back(rates.back() / engine_rates.back());
    rows.push_back(run->summary["active_rows_per_batch"]);
    engine_rows.push_back(engine.rows_per_batch);
    sent.push_back(run->summary["bytes_sent_per_sample"]);
    received.push_back(run->summary["bytes_received_per_sample"]);
  }
  return ClusterBenchResult{Median(rates),   Median(engine_rates), Median(shares),
                            Median(rows),    Median(engine_rows),  Median(sent),
                            Median(received)};
}

}  // namespace dslide
