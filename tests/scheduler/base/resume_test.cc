// What a resumed run takes from its newest checkpoint.
#include "scheduler/base/resume.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "common/checkpoint/layout.h"
#include "tests/support/temp_directory.h"

namespace dslide::resume_test {
namespace {

constexpr uint32_t kFeatures = 50, kLabels = 40;

struct Checkpointed {
  Checkpointed() {
    const std::vector<uint32_t> label = {3}, feature = {4};
    const std::vector<float> value = {1.0f};
    data.Add({label, feature, value});
    inputs.train = &data;
    inputs.checkpoint_directory = directory.path();
    ResolveConfig(kFeatures, kLabels, &inputs.config);
  }
  void Write(const std::string& config) {
    Manifest manifest;
    manifest.name = CheckpointName(7);
    manifest.train_samples = 1;
    manifest.config = config;
    const std::string path = directory.path() + "/" + manifest.name;
    std::filesystem::create_directories(path);
    REQUIRE(WriteManifest(path, manifest).ok());
  }

  TempDirectory directory;
  Dataset data{kFeatures, kLabels};
  RunInputs inputs;
};

TEST_CASE_FIXTURE(Checkpointed, "resume: the checkpoint is found") {
  Write(FormatConfig(inputs.config));
  REQUIRE(FindWhatToResume(true, &inputs).ok());
  CHECK(inputs.checkpoint->name == CheckpointName(7));
  CHECK(inputs.config.cluster.input_slots == 10);
}

TEST_CASE_FIXTURE(Checkpointed,
                  "resume: slots of a version without cluster.input_slots are for both") {
  std::string config = FormatConfig(inputs.config);
  const size_t line = config.find("input_slots");
  config.erase(line, config.find('\n', line) + 1 - line);
  Write(config);
  REQUIRE(FindWhatToResume(true, &inputs).ok());
  CHECK(inputs.config.cluster.input_slots == 0);
}

TEST_CASE_FIXTURE(Checkpointed, "resume: what decides where rows are cannot change") {
  Config config = inputs.config;
  config.cluster.input_slots = 5;
  Write(FormatConfig(config));
  const Status found = FindWhatToResume(true, &inputs);
  REQUIRE_FALSE(found.ok());
  CHECK(
      found.error().message.starts_with("--resume: cluster.input_slots is 10 but 5 in checkpoint"));
}

struct Finished : Checkpointed {
  Finished() {
    config.train.data = "/data/train.txt";
    config.train.epochs = 4;
    ledger.opened = ledger.finished = true;
    ledger.epoch = 4;
    ledger.run.train_samples = 1;
    Config stored = config;
    ResolveConfig(kFeatures, kLabels, &stored, {1, 3.0});
    ledger.run.config = FormatConfig(stored);
  }
  Config config;
  LedgerState ledger;
};

TEST_CASE_FIXTURE(Finished, "resume: a run that has done what is asked for is finished") {
  CHECK(IsFinished(ledger, config));
  config.train.epochs = 3;
  CHECK(IsFinished(ledger, config));
  config.train.data = "-";
  CHECK(IsFinished(ledger, config));
}

TEST_CASE_FIXTURE(Finished, "resume: a run is finished where it has chosen to end") {
  ledger.epoch = 3;
  ledger.plan.settings = {"train.late_dropout=2", "train.epochs=3", "train.schedule_epochs=4",
                          "train.cooldown_epochs=1"};
  CHECK(IsFinished(ledger, config));
  // By config.ini, which has the chosen values, with the run's own number of epochs on top.
  config.train.late_dropout = 2;
  config.train.schedule_epochs = 4;
  config.train.cooldown_epochs = 1;
  CHECK(IsFinished(ledger, config));
  config.train.epochs = 3;
  CHECK(IsFinished(ledger, config));
  config.train.schedule_epochs = 0;
  config.train.epochs = 6;
  CHECK_FALSE(IsFinished(ledger, config));
}

TEST_CASE_FIXTURE(Finished, "resume: a run that has not, or that another is asked for, goes on") {
  SUBCASE("more epochs") { config.train.epochs = 5; }
  SUBCASE("it was stopped") { ledger.finished = false; }
  SUBCASE("its servers may live") { ledger.live = true; }
  SUBCASE("other data") { config.train.data = "/data/other.txt"; }
  SUBCASE("a test file") { config.train.test = "/data/test.txt"; }
  SUBCASE("what cannot change") { config.model.hidden = 17; }
  SUBCASE("label names") { config.train.label_names = "/data/names.tsv"; }
  SUBCASE("label names that are gone") {
    Config stored = config;
    stored.train.label_names = config.train.label_names = directory.path() + "/names.tsv";
    ResolveConfig(kFeatures, kLabels, &stored, {1, 3.0});
    ledger.run.config = FormatConfig(stored);
  }
  SUBCASE("a ledger that says nothing") { ledger.run.config.clear(); }
  CHECK_FALSE(IsFinished(ledger, config));
}

TEST_CASE_FIXTURE(Finished, "resume: that there is nothing to resume shows before data is read") {
  const std::string nowhere = directory.path() + "/nowhere";
  CHECK_FALSE(CheckSomethingToResume(false, {}, nowhere).ok());
  CHECK(CheckSomethingToResume(true, {}, nowhere).ok());  // it died before it began
  ledger.last_checkpoint = CheckpointName(7);
  const Status gone = CheckSomethingToResume(true, ledger, nowhere);
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().message.find("is gone from") != std::string::npos);
  Write("");
  CHECK(CheckSomethingToResume(true, ledger, directory.path()).ok());
}

}  // namespace
}  // namespace dslide::resume_test
