#include "tools/dslide/report/run_directory.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/config/config.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/status/run_costs.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"
#include "tools/dslide/cluster/launcher.h"

namespace dslide::run_directory_test {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string Progress(double elapsed_s, double loss) {
  return nlohmann::ordered_json{{"event", "progress"},
                                {"elapsed_s", elapsed_s},
                                {"progress", 0.5},
                                {"samples_per_second", 100},
                                {"loss", loss},
                                {"bytes_sent_per_sample", 10},
                                {"bytes_received_per_sample", 20},
                                {"active_neurons_per_sample", 30},
                                {"tail_error", 0.25}}
             .dump() +
         "\n";
}

constexpr char kStart[] = R"({"event":"start","elapsed_s":0,"time":9,"train_samples":7,)"
                          "\"test_samples\":3}\n";
constexpr char kLost[] = "{\"event\":\"lost\",\"elapsed_s\":4,\"server\":\"s-2\"}\n";
constexpr char kNotice[] = "{\"event\":\"notice\",\"elapsed_s\":3,\"text\":\"slots move\"}\n";

// A run directory of two lives of the scheduler, of which each was heard of for 10 s.
struct Setup {
  Setup() {
    fs::create_directory(path);
    Config config;
    config.model.features = 40;
    config.model.labels = 20;
    config.train.epochs = 4;
    config.train.batch = 64;
    ResolveConfig(40, 20, &config);
    Write(path + "/config.ini", FormatConfig(config));
    Write(path + "/metrics.jsonl", kStart + Progress(5, 3.0) + Progress(10, 2.0) + kStart +
                                       kNotice + kLost + Progress(10, 1.0));
    Write(path + "/loads.jsonl", R"({"elapsed_s":5,"servers":[{"name":"s","slots":4,"load":1.5}]})"
                                 "\n");
    Write(path + "/examples.jsonl", R"({"number":1,"labels":["a"],"predicted":["b"]})"
                                    "\n");
    Write(path + "/summary.json", R"({"outcome":"finished","p_at_1":0.5})");
  }
  void CheckRefused(const std::string& message) const {
    CHECK(MessageOf(ReadRunDirectory(path)) == message);
  }

  TempDirectory directory;
  const std::string path = directory.path() + "/my-run";
};

TEST_CASE("run directory: lives follow each other, and all files are read") {
  const Setup setup;
  const auto run = Ok(ReadRunDirectory(setup.path + "/"));
  using Json = nlohmann::ordered_json;
  CHECK(run["name"] == "my-run");
  CHECK(run["finished"] == true);
  CHECK(run["summary"]["p_at_1"] == 0.5);
  CHECK(run["summary"]["whole_run"] == false);  // an earlier version wrote it
  const Json& history = run["history"];
  CHECK(history["run"]["train_samples"] == 7);
  CHECK(history["run"]["labels"] == 20);
  CHECK(history["progress"]["elapsed_s"] == Json({5, 10, 20}));
  CHECK(history["progress"]["epochs"] == Json({2, 2, 2}));
  CHECK(history["progress"]["tail_error"] == Json({0.25, 0.25, 0.25}));
  CHECK(history["events"] == Json::parse(R"([{"at_s":13,"text":"slots move"}])"));
  CHECK(history["loads"]["servers"][0]["load"] == Json({150}));
  CHECK(history["examples"][0]["labels"] == Json({"a"}));
  CHECK(history["checkpoints"].empty());
  size_t other = 0;
  for (const Json& key : run["config"]) other += key[1] != key[2];
  CHECK(other == 2);  // epochs and batch, not the learning rate, which follows it
  for (const Json& key : run["config"]) {
    if (key[0] != "train.batch") continue;
    CHECK(key == Json({"train.batch", "64", "512", "0"}));  // 0 is derived to 512 for large data
  }
  CHECK(history["lost"] == Json::parse(R"([{"at_s":14,"server":"s-2"}])"));
}

TEST_CASE("run directory: a default is what derivation gives for the run's other settings") {
  Setup setup;
  const auto differing = [&](const Config& config, const std::string& start) {
    Write(setup.path + "/config.ini", FormatConfig(config));
    Write(setup.path + "/metrics.jsonl", start);
    std::string keys;
    const auto run = Ok(ReadRunDirectory(setup.path));
    for (const auto& key : run["config"]) {
      if (key[1] != key[2]) keys += key[0].get<std::string>() + ";";
    }
    return keys;
  };
  static constexpr uint64_t kSamples = 100'000;
  const auto start = [](double label_repeats) {
    return nlohmann::json{{"event", "start"},
                          {"elapsed_s", 0},
                          {"train_samples", kSamples},
                          {"test_samples", 3},
                          {"label_repeats", label_repeats}}
               .dump() +
           "\n";
  };
  Config rare;
  ResolveConfig(40, 3000, &rare, {kSamples, 2});
  REQUIRE(rare.model.neurons == Neurons::kCentroids);
  CHECK(differing(rare, start(2)).empty());
  CHECK(differing(rare, kStart).empty());
  CHECK(differing(rare, start(1000)) == "model.neurons;");
  Config frequent;
  ResolveConfig(40, 3000, &frequent, {kSamples, 1000});
  CHECK(differing(frequent, start(1000)).empty());
  CHECK(differing(frequent, kStart).empty());
  Config launched = rare;
  launched.cluster.scheduler_bind = kLaunchedBind;
  launched.cluster.executors = LaunchedExecutors(launched.cluster.servers);
  CHECK(differing(launched, start(2)).empty());
  Config batches;
  batches.train.batch = 64;
  ResolveConfig(40, 3000, &batches, {kSamples, 2});
  CHECK(differing(batches, start(2)) == "train.batch;");
  Config rates;
  rates.train.learning_rate = 0.5f;
  ResolveConfig(40, 3000, &rates, {kSamples, 2});
  CHECK(differing(rates, start(2)) == "train.learning_rate;");
}

TEST_CASE("run directory: an interval in which no batch counted is not drawn") {
  const Setup setup;
  nlohmann::ordered_json empty = nlohmann::ordered_json::parse(Progress(7, 0));
  empty["active_neurons_per_sample"] = 0.0;
  Write(setup.path + "/metrics.jsonl",
        kStart + Progress(5, 3) + empty.dump() + "\n" + Progress(8, 2));
  CHECK((*ReadRunDirectory(setup.path))["history"]["progress"]["loss"] ==
        nlohmann::ordered_json({3, 2}));
}

TEST_CASE("run directory: a run without a summary says what it has cost so far") {
  const Setup setup;
  CHECK_FALSE((*ReadRunDirectory(setup.path)).contains("so_far"));
  fs::remove(setup.path + "/summary.json");
  CHECK((*ReadRunDirectory(setup.path))["so_far"].is_null());
  RunCosts costs;
  costs.work.samples = 100;
  costs.train_seconds = 4;
  Write(setup.path + "/totals.json", FormatCosts(costs));
  CHECK((*ReadRunDirectory(setup.path))["so_far"]["samples_per_second"] == 25);
}

TEST_CASE("run directory: a run that goes on has no summary, and may be writing a line") {
  const Setup setup;
  fs::remove(setup.path + "/summary.json");
  std::ofstream(setup.path + "/metrics.jsonl", std::ios::app) << "{\"event\":\"prog";
  const auto run = Ok(ReadRunDirectory(setup.path));
  CHECK(run["summary"].is_null());
  CHECK(run["finished"] == false);
  CHECK(run["history"]["progress"]["loss"].size() == 3);
}

TEST_CASE(
    "run directory: the ledger says whether the summary is of the last life, not file times") {
  const Setup setup;
  const std::string ledger = setup.path + "/ledger";
  const auto append = [&](const LedgerEntry& entry) {
    LedgerState state;
    const auto opened = Ok(Ledger::Open(ledger, &state));
    REQUIRE(opened->Append(entry).ok());
  };
  append(LedgerOpened{{7}, "", 7, 9});
  CHECK((*ReadRunDirectory(setup.path))["summary"].is_null());
  append(LedgerStopped{true});
  const auto before = fs::last_write_time(setup.path + "/metrics.jsonl") - std::chrono::hours(1);
  fs::last_write_time(setup.path + "/summary.json", before);
  CHECK((*ReadRunDirectory(setup.path))["summary"]["p_at_1"] == 0.5);
  append(LedgerOpened{{7}, "", 7, 9});
  CHECK((*ReadRunDirectory(setup.path))["summary"].is_null());
  append(LedgerStopped{false});
  CHECK((*ReadRunDirectory(setup.path))["summary"]
            .is_null());  // that of the end before says finished
}

TEST_CASE("run directory: what is damaged or missing is named") {
  const auto refused = [](const std::string& file, const std::string& text,
                          const std::string& why) {
    CAPTURE(text);
    const Setup setup;
    Write(setup.path + "/" + file, text);
    setup.CheckRefused(setup.path + "/" + file + why);
  };
  const std::string mend = "; remove the line to report without it";
  refused("metrics.jsonl", std::string(kStart) + "{\"event\": 3, \n" + kNotice,
          ":2: not a JSON object" + mend);
  for (const char* line : {"{\"event\":3}\n", "{}\n", "{\"event\":\"progress\",\"elapsed_s\":1}\n",
                           "{\"event\":\"notice\",\"elapsed_s\":1,\"text\":[]}\n",
                           "{\"event\":\"lost\",\"elapsed_s\":1,\"server\":7}\n"}) {
    refused("metrics.jsonl", std::string(kStart) + line, ":2: not a record of a run" + mend);
  }
  refused("loads.jsonl", "[]\n", ":1: not a JSON object" + mend);
  refused("summary.json", "{", ": not a JSON object");
  refused("summary.json", "{\"a\":" + std::string(300'000, '[') + std::string(300'000, ']') + "}",
          ": not a JSON object");
  refused("summary.json", R"({"outcome":5})", ": not a summary of a run (its outcome is no text)");
  for (const char* name : {"config.ini", "metrics.jsonl"}) {
    const Setup setup;
    fs::remove(setup.path + "/" + name);
    setup.CheckRefused(setup.path + ": not a run directory, there is no " + name + " in it");
  }
  const Setup setup;
  fs::remove_all(setup.path);
  setup.CheckRefused(setup.path + ": no such directory");
  Write(setup.path, "a file");
  setup.CheckRefused(setup.path + ": is no run directory");
}

}  // namespace
}  // namespace dslide::run_directory_test
