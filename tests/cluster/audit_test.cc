// Audit by re-execution: a worker that lies is found, put out, and leaves nothing behind.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "common/data/whole_file.h"
#include "common/security/run_keys.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/weights.h"
#include "tests/support/results.h"

namespace dslide::audit_test {
namespace {

constexpr char kAll[] = "train.audit=1";

Arguments Steps(const std::string& audit, int workers = 2) {
  return {"--servers", "2",
          "--workers", std::to_string(workers),
          "--set",     "security.encryption=always",
          "--set",     "train.batch=64",
          "--set",     "train.staleness=0",
          "--set",     "train.target_batch=256",
          "--set",     "train.epochs=3",
          "--set",     "checkpoint.interval_s=1",
          "--set",     audit};
}

std::string SchedulerLog(const TestRun& run) {
  return *ReadWholeFile(run.run_directory() + "/logs/scheduler.log");
}

uint64_t HonestWeights(const std::string& audit, int workers = 2) {
  TestRun run;
  // Slowly, so that all workers take part.
  const auto train = run.Train(Steps(audit, workers), audit == kAll ? kSlowly : "");
  REQUIRE(train->Wait() == 0);
  CHECK_FALSE(Contains(SchedulerLog(run), "[worker.exclude]"));
  CHECK_FALSE(Contains(SchedulerLog(run), "[audit.undecided]"));
  if (audit == kAll) {
    const nlohmann::json audits = run.Summary()["audits"];
    CHECK(audits["done"] > 0);
    CHECK(audits["skipped"] == 0);
    CHECK(audits["undecided"] == 0);
    CHECK(audits["liars"] == 0);
    CHECK(audits["taken_back"] == 0);
  }
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  return Weights(run);
}

std::unique_ptr<Process> Liar(TestRun* run, const std::string& name) {
  return run->Start("dslide-worker",
                    {"--key", run->run_directory() + "/keys/mallory.key", "--name", name},
                    "worker.lie=fail@2");
}

void AllowMallory(const TestRun& run) {
  RunKeys keys = Ok(RunKeys::Open(run.run_directory()));
  REQUIRE(keys.Allow({KeyRole::kWorker, "mallory", {}, 0}, std::nullopt).ok());
}

// The names of the keys that are in quarantine.
std::vector<std::string> Quarantined(const TestRun& run) {
  const RunKeys keys = Ok(RunKeys::Open(run.run_directory()));
  std::vector<std::string> names;
  for (const Grant& grant : keys.ring().grants()) {
    if (grant.quarantined_s != 0) names.push_back(grant.name);
  }
  return names;
}

TEST_CASE("audit: honest workers agree, nobody is waited for in vain, nothing changes") {
  const uint64_t weights = HonestWeights("train.audit=0");
  CHECK(HonestWeights(kAll) == weights);
  CHECK(HonestWeights(kAll, 3) == weights);
}

TEST_CASE("audit: a liar is put out, and the model is that of the honest") {
  TestRun run;
  const auto train = run.Train(Steps(kAll), kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  AllowMallory(run);
  const auto liar = Liar(&run, "mallory");
  CHECK(liar->Wait() == 2);
  CHECK(Contains(liar->Errors(), "does not count here any more"));
  REQUIRE(train->Wait() == 0);
  CHECK(Contains(SchedulerLog(run), "[worker.exclude] mallory "));
  CHECK(Quarantined(run) == std::vector<std::string>{"mallory"});
  CHECK(run.Summary()["audits"]["liars"] == 1);
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  CHECK(Weights(run) == HonestWeights("train.audit=0"));
}

TEST_CASE("audit: liars with one key believe one another, and nobody else does") {
  TestRun run;
  const auto train = run.Train(Steps(kAll), kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  AllowMallory(run);
  const auto one = Liar(&run, "one");
  const auto other = Liar(&run, "other");
  CHECK(one->Wait() == 2);
  CHECK(other->Wait() == 2);
  REQUIRE(train->Wait() == 0);
  CHECK(Quarantined(run) == std::vector<std::string>{"mallory"});
  for (const int worker : {1, 2}) CHECK_FALSE(Contains(run.WorkerLog(worker), "does not count"));
  for (const int worker : {1, 2}) {
    CHECK_FALSE(Contains(SchedulerLog(run), fmt::format("[worker.exclude] worker-{} ", worker)));
  }
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  CHECK(Weights(run) == HonestWeights("train.audit=0"));
}

}  // namespace
}  // namespace dslide::audit_test
