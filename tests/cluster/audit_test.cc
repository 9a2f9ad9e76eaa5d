// Audit by re-execution: a worker that lies is found, put out, and leaves nothing behind.
#include <doctest/doctest.h>

#include "common/checkpoint/manifest.h"
#include "common/data/whole_file.h"
#include "common/security/run_keys.h"
#include "server/storage/checkpoint_verify.h"
#include "tests/cluster/cluster.h"

namespace dslide::audit_test {
namespace {

constexpr char kAll[] = "train.audit=1";

Arguments Steps(const std::string& audit) {
  return {"--servers", "2",
          "--workers", "2",
          "--set",     "security.encryption=always",
          "--set",     "train.batch=64",
          "--set",     "train.staleness=0",
          "--set",     "train.target_batch=256",
          "--set",     "train.epochs=2",
          "--set",     "checkpoint.interval_s=1",
          "--set",     audit};
}

std::string SchedulerLog(const TestRun& run) {
  return *ReadWholeFile(run.run_directory() + "/logs/scheduler.log");
}

uint64_t Weights(const TestRun& run) {
  const Result<std::string> checkpoint = FindCheckpoint(run.run_directory() + "/checkpoint");
  REQUIRE(checkpoint.ok());
  const Result<Manifest> manifest = ReadManifest(*checkpoint);
  REQUIRE(manifest.ok());
  const CheckpointHealth health = VerifyCheckpoint(*checkpoint, *manifest);
  REQUIRE(health.damage.empty());
  return health.checksum;
}

uint64_t HonestWeights(const std::string& audit) {
  TestRun run;
  const auto train = run.Train(Steps(audit));
  REQUIRE(train->Wait() == 0);
  CHECK(SchedulerLog(run).find("sent something else") == std::string::npos);
  CHECK(SchedulerLog(run).find("workers differ") == std::string::npos);
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  return Weights(run);
}

TEST_CASE("audit: honest workers agree, and a second execution changes nothing") {
  CHECK(HonestWeights(kAll) == HonestWeights("train.audit=0"));
}

TEST_CASE("audit: a liar is put out, and the model is that of the honest") {
  TestRun run;
  const auto train = run.Train(Steps(kAll), kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  Result<RunKeys> keys = RunKeys::Open(run.run_directory());
  REQUIRE(keys.ok());
  REQUIRE(keys->Allow({KeyRole::kWorker, "mallory", {}, 0}, std::nullopt).ok());
  const auto liar = run.Start(
      "dslide-worker", {"--key", run.run_directory() + "/keys/mallory.key", "--name", "mallory"},
      "worker.lie=fail@2");
  CHECK(liar->Wait() == 2);
  CHECK(Contains(liar->Errors(), "does not count here any more"));
  REQUIRE(train->Wait() == 0);
  CHECK(Contains(SchedulerLog(run), "mallory sent something else for batch "));
  CHECK(run.Run("dslide", {"key", "list", run.run_directory()}) == 0);
  CHECK(Contains(run.last_output(), "quarantined"));
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  CHECK(Weights(run) == HonestWeights("train.audit=0"));
}

}  // namespace
}  // namespace dslide::audit_test
