#include "tools/dslide/cluster_bench.h"

#include <fmt/core.h>
#include <poll.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/dslide/child_process.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint32_t kFileBatches = 256;  // of the generated data; epochs repeat them

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(fs::temp_directory_path() / "dslide-bench-XXXXXX") {
    std::string path = path_.string();
    if (mkdtemp(path.data()) == nullptr) path.clear();
    path_ = path;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  bool ok() const { return !path_.empty(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

Status WriteData(const EngineBenchOptions& options, const std::string& path) {
  std::ofstream file(path);
  if (!file) return BadInput(fmt::format("{}: cannot be written", path));
  file << kFileBatches * options.config.train.batch << ' ' << options.features << ' '
       << options.labels << '\n';
  for (uint32_t number = 0; number < kFileBatches; ++number) {
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
  if (!file.flush()) return BadInput(fmt::format("{}: writing failed; is the disk full?", path));
  return {};
}

// Trains `epochs` over the file; the summary.
Result<Json> Train(const EngineBenchOptions& options, const Overrides& overrides,
                   const TemporaryDirectory& directory, uint32_t epochs) {
  const std::string run = directory / "run";
  std::vector<std::string> arguments = {"train", "--servers", "1", "--workers",
                                        "1",     "--run-dir", run};
  Overrides settings = overrides;
  settings.push_back("train.data=" + directory / "train.txt");
  settings.push_back(fmt::format("train.epochs={}", epochs));
  settings.push_back(fmt::format("cluster.executors={}", options.threads));
  for (const std::string& setting : settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  const std::string log = directory / "log";
  Result<ChildProcess> child =
      ChildProcess::Start("train", ExecutableDirectory() + "/dslide", arguments, log, false);
  DSLIDE_RETURN_IF_ERROR(child);
  while (child->running()) {
    child->Poll();
    poll(nullptr, 0, 20);
  }
  std::ifstream file(run + "/summary.json");
  Json summary = Json::parse(file, nullptr, false);
  if (child->exit_code() != 0 || summary.is_discarded()) {
    std::ifstream lines(log);
    std::string line, last;
    while (std::getline(lines, line)) last = line;
    return Failed(fmt::format("the cluster ended with {}: {}", child->Ending(), last));
  }
  std::error_code ignored;
  fs::remove_all(run, ignored);
  return summary;
}

}  // namespace

Result<ClusterBenchResult> RunClusterBench(const EngineBenchOptions& options,
                                           const Overrides& overrides) {
  const TemporaryDirectory directory;
  if (!directory.ok()) return BadInput("no temporary directory can be made; set TMPDIR");
  DSLIDE_RETURN_IF_ERROR(WriteData(options, directory / "train.txt"));
  EngineBenchOptions once = options;
  once.repeats = 1;
  std::vector<double> rates, engine_rates, shares, sent, received;
  for (uint32_t r = 0; r < options.repeats; ++r) {
    const double engine = RunEngineBench(once).samples_per_second;
    const double samples_an_epoch = double{kFileBatches} * options.config.train.batch;
    const auto epochs = static_cast<uint32_t>(1 + 2 * options.seconds * engine / samples_an_epoch);
    const Result<Json> summary = Train(options, overrides, directory, epochs);
    DSLIDE_RETURN_IF_ERROR(summary);
    rates.push_back((*summary)["samples_per_second"]);
    engine_rates.push_back(engine);
    shares.push_back(rates.back() / engine);
    sent.push_back((*summary)["bytes_sent_per_sample"]);
    received.push_back((*summary)["bytes_received_per_sample"]);
  }
  return ClusterBenchResult{Median(rates), Median(engine_rates), Median(shares), Median(sent),
                            Median(received)};
}

}  // namespace dslide
