// Hash tables that no longer tell neurons apart are rebuilt with new functions while training goes
// on, on all servers, and a checkpoint holds the functions in use.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "common/base/random.h"
#include "tests/cluster/cluster.h"

namespace dslide::table_rebuild_test {
namespace {

// Half of the samples have the same 20 features and labels of the same 800, drawn at random: the
// neurons of those labels learn the same and become parallel.
void WriteParallelLabels(const std::string& path) {
  constexpr int kSampleCount = 1500, kAlike = 800, kAll = 1000, kEach = 20;
  Random random(1);
  std::ofstream file(path);
  file << kSampleCount << ' ' << 2 * kEach << ' ' << kAll << '\n';
  for (int n = 0; n < kSampleCount; ++n) {
    const bool alike = n % 2 == 0;
    std::set<int> labels;
    for (int i = 0; i < (alike ? 60 : 3); ++i) {
      labels.insert(alike ? static_cast<int>(random.Below(kAlike))
                          : kAlike + static_cast<int>(random.Below(kAll - kAlike)));
    }
    std::string line;
    for (const int label : labels) line += (line.empty() ? "" : ",") + std::to_string(label);
    for (int i = 0; i < kEach; i += 2) {
      line +=
          ' ' + std::to_string((alike ? 0 : kEach) + i + static_cast<int>(random.Below(2))) + ":1";
    }
    file << line << '\n';
  }
}

// Whether both servers' tables are of a later round than the first.
bool BuiltAnew(const TestRun& run) {
  const nlohmann::json status = run.Status();
  if (!status.contains("members")) return false;
  int servers = 0;
  for (const auto& member : status["members"]) servers += member.value("hash_round", 0) >= 1;
  return servers == 2;
}

TEST_CASE("degenerate hash tables are built anew on all servers, and stay so after a resume") {
  TestRun run;
  WriteParallelLabels(run.Path("parallel.txt"));
  const Arguments arguments = {"--servers", "2",
                               "--workers", "1",
                               "--set",     "train.data=" + run.Path("parallel.txt"),
                               "--set",     "train.test=",
                               "--set",     "model.active=lsh",
                               "--set",     "model.hidden=64",
                               "--set",     "train.epochs=5000",
                               "--set",     "train.batch=64",
                               "--set",     "train.optimizer=adagrad",
                               "--set",     "train.learning_rate=0.14",
                               "--set",     "train.warmup_batches=500",
                               "--set",     "hash.k=3"};
  const auto train = run.Train(arguments);
  REQUIRE(WaitFor([&] { return BuiltAnew(run); }));
  const nlohmann::json decisions = run.Status()["decisions"];
  CHECK(std::any_of(decisions.begin(), decisions.end(), [](const nlohmann::json& decision) {
    return decision["text"].get<std::string>().starts_with("hash tables are built anew with 4 ");
  }));
  train->Signal(SIGINT);
  REQUIRE(train->Wait() == 85);
  Arguments again = arguments;
  again.push_back("--resume");
  const auto resumed = run.Train(again);
  REQUIRE(WaitFor([&] { return run.Status().contains("members") && run.TrainedSamples() > 0; }));
  REQUIRE(WaitFor([&] { return BuiltAnew(run); }));
  const nlohmann::json since = run.Status()["decisions"];
  CHECK(std::none_of(since.begin(), since.end(), [](const nlohmann::json& decision) {
    return decision["text"].get<std::string>().starts_with("hash tables are built anew with 4 ");
  }));
  resumed->Signal(SIGINT);
  CHECK(resumed->Wait() == 85);
}

}  // namespace
}  // namespace dslide::table_rebuild_test
