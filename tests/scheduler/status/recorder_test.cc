#include "scheduler/status/recorder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "scheduler/base/events.h"
#include "scheduler/status/summary.h"
#include "tests/support/numbered_samples.h"
#include "tests/support/temp_directory.h"

namespace dslide::recorder_test {
namespace {

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Setup {
  Setup() {
    run.train = &train;
    run.config.model.labels = 10;
    run.config.checkpoint.keep = 1;
    run.checkpoint_directory = directory.path() + "/checkpoint";
  }

  TempDirectory directory;
  const Dataset train = NumberedSamples(50, 10);
  RunContext run;
};

TEST_CASE("recorder: what happens is in the files and in the history") {
  Setup setup;
  RunRecorder recorder(setup.directory.path(), setup.run, LabelNames());
  REQUIRE(recorder.state().ok());
  recorder.OnEvent({event::kSlotsMove, "slots move", {{"imbalance", 1.5}}}, 1.5);
  recorder.OnLost("server-2", 1.75);
  EvaluationResult evaluation;
  evaluation.epoch = 2;
  evaluation.metrics.precision[0] = 0.5;
  recorder.OnEvaluation(evaluation, EvaluationEvent(evaluation, false), 2.5);
  recorder.OnExamples({{4, {3}, {3, 7}}});
  for (const char* name : {"step-1", "step-2"}) {
    Manifest manifest;
    manifest.name = name;
    manifest.shards.resize(2);
    manifest.shards[0].bytes = 100;
    recorder.OnCheckpoint(manifest);
  }

  const std::string metrics = ContentOf(setup.directory.path() + "/metrics.jsonl");
  CHECK(metrics.find("{\"event\":\"start\",\"elapsed_s\":0.0,") == 0);
  CHECK(metrics.find("\"train_samples\":50") != std::string::npos);
  CHECK(metrics.find(R"({"event":"notice","elapsed_s":1.5,"code":"slots.move.start",)"
                     R"("text":"slots move","fields":{"imbalance":1.5}})"
                     "\n") != std::string::npos);
  CHECK(metrics.find("{\"event\":\"lost\",\"elapsed_s\":1.75,\"server\":\"server-2\"}\n") !=
        std::string::npos);
  CHECK(ContentOf(setup.directory.path() + "/examples.jsonl") ==
        "{\"number\":5,\"labels\":[\"3\"],\"predicted\":[\"3\",\"7\"]}\n");
  const auto history = nlohmann::json::parse(recorder.HistoryText());
  CHECK(history["run"]["train_samples"] == 50);
  CHECK(history["events"][0] == nlohmann::json::parse(R"({"at_s":1.5,"code":"slots.move.start",
      "text":"slots move","fields":{"imbalance":1.5}})"));
  CHECK(history["events"][1]["code"] == "evaluation.done");
  CHECK(history["lost"] == nlohmann::json::parse(R"([{"at_s":1.75,"server":"server-2"}])"));
  CHECK(history["evaluations"]["p_at_1"][0] == 0.5);
  CHECK(history["examples"][0]["labels"][0] == "3");
  REQUIRE(history["checkpoints"].size() == 1);
  CHECK(history["checkpoints"][0]["name"] == "step-2");
  CHECK(history["checkpoints"][0]["bytes"] == 100);
}

TEST_CASE("recorder: an interval in which no batch counted leaves no record") {
  Setup setup;
  RunRecorder recorder(setup.directory.path(), setup.run, LabelNames());
  recorder.OnProgress({}, {}, {}, 1);
  const std::string metrics = setup.directory.path() + "/metrics.jsonl";
  CHECK(ContentOf(metrics).find("progress") == std::string::npos);
  ProgressMeter::Reading reading;
  reading.recent.samples = 1;
  recorder.OnProgress({}, reading, {}, 2);
  CHECK(ContentOf(metrics).find("\"progress\",\"elapsed_s\":2.0") != std::string::npos);
}

TEST_CASE("recorder: labels have the names of the file, those without one their number") {
  Setup setup;
  setup.run.config.train.label_names = setup.directory.path() + "/names.tsv";
  std::ofstream(setup.run.config.train.label_names) << "2\tapples\n3\tpears\n";
  const LabelNames names(nullptr, setup.run.config);
  CHECK(names.Of(2) == "apples");
  CHECK(names.Of(4) == "4");
  CHECK(names.Of(4000) == "4000");
  setup.run.config.train.label_names += ".absent";
  CHECK(LabelNames(nullptr, setup.run.config).Of(2) == "2");
}

TEST_CASE("recorder: a directory that cannot be written is an error that names the file") {
  Setup setup;
  const RunRecorder recorder(setup.directory.path() + "/none", setup.run, LabelNames());
  REQUIRE_FALSE(recorder.state().ok());
  CHECK(recorder.state().error().message ==
        setup.directory.path() + "/none/metrics.jsonl: cannot write: No such file or directory");
}

}  // namespace
}  // namespace dslide::recorder_test
