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

}  // namespace
}  // namespace dslide::resume_test
