// dslide plan: what it prints of a small task, and that what cannot be is refused in one line.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/cluster/cluster.h"

namespace dslide::plan_test {
namespace {

using Json = nlohmann::json;

class PlanRun : public TestRun {
 public:
  // dslide plan with a measurement of no length to speak of.
  int Plan(Arguments arguments) {
    arguments.insert(arguments.begin(), {"plan", "--milliseconds", "10"});
    return Run("dslide", arguments);
  }
  Json Planned(Arguments arguments) {
    arguments.push_back("--json");
    const int code = Plan(std::move(arguments));
    REQUIRE_MESSAGE(code == 0, last_errors());
    return Json::parse(last_output());
  }
  void Refused(const Arguments& arguments, const std::string& names) {
    CAPTURE(names);
    CHECK(Plan(arguments) == 2);
    const std::string& errors = last_errors();
    CAPTURE(errors);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
    CHECK(errors.find(names) != std::string::npos);
    CHECK(last_output().empty());
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
  }
};

TEST_CASE("dslide plan reads the data as a run does, and its rates again") {
  PlanRun run;
  const Json plan =
      run.Planned({"--config", run.config(), "--nodes", "2x2x8x100", "--price", "0.1"});
  CHECK(plan["samples"] == kSamples);
  CHECK(plan["features"] == kFeatures);
  CHECK(plan["labels"] == kLabels);
  CHECK(plan["servers"] == 2);
  CHECK(plan["workers"] == 2);
  CHECK(plan["samples_per_second"] > 0.0);
  CHECK(plan["bytes_sent_per_sample"] > 0.0);
  CHECK(plan["rows_per_batch"] == kLabels);  // so few are all computed
  CHECK(plan["money"].get<double>() == doctest::Approx(0.2 * plan["hours"].get<double>()));
  CHECK(plan["more_nodes"].size() >= 2);
  // With these rates nothing is measured, and the plan is the same.
  run.Write("rates.json", plan.dump());
  const Json again = run.Planned({"--config", run.config(), "--nodes", "2x2x8x100", "--price",
                                  "0.1", "--rates", run.Path("rates.json")});
  CHECK(run.last_errors().empty());
  CHECK(again == plan);
  // For people.
  CHECK(run.Plan({"--config", run.config(), "--rates", "0.5"}) == 0);
  for (const char* word :
       {"parameters", "memory", "disk", "samples/s", "bottleneck", "0.5 times"}) {
    CHECK(Contains(run.last_output(), word));
  }
  CHECK_FALSE(std::filesystem::exists(run.run_directory()));
}

TEST_CASE("dslide plan takes text, and sizes without data") {
  PlanRun run;
  std::string lines;
  for (int i = 0; i < 600; ++i) {
    const std::string number = std::to_string(i % 7);
    lines += "{\"text\": \"word" + number + " more" + std::to_string(i % 3) +
             "\", \"labels\": [\"" + number + "\"]}\n";
  }
  run.Write("train.jsonl", lines);
  const Json text = run.Planned({"--data", run.Path("train.jsonl")});
  CHECK(text["samples"] == 600);
  CHECK(text["labels"] == 7);
  CHECK(text["more_nodes"].empty());  // this machine
  const Json sizes = run.Planned({"--features", "5000", "--labels", "3000", "--samples", "1000",
                                  "--features-per-sample", "20", "--labels-per-sample", "2",
                                  "--servers", "2", "--workers", "3", "--set", "model.hidden=32"});
  CHECK(sizes["samples"] == 1000);
  CHECK(sizes["labels"] == 3000);
  CHECK(sizes["hidden"] == 32);
  CHECK(sizes["servers"] == 2);
  CHECK(sizes["workers"] == 3);
  CHECK(sizes["features_per_sample"] == 20.0);
}

TEST_CASE("dslide plan refuses what does not fit, and wrong uses, before it measures") {
  PlanRun run;
  const Arguments small = {"--features", "1000000", "--labels", "5000000", "--nodes", "2x2x2x100"};
  run.Refused(small, "too little memory: the model needs 6733 MB for rows and tables, 2 servers");
  CHECK(Contains(run.last_errors(), " such nodes would do, or 2 nodes with "));
  run.Refused(
      {"--config", run.config(), "--set", "cluster.memory_mb=1", "--set", "model.hidden=4096"},
      "cluster.memory_mb");
  run.Refused({}, "no data: name the training file by --data");
  run.Refused({"--data", run.Path("absent.txt")}, run.Path("absent.txt"));
  run.Refused({"--data", "-"}, "--data -");
  run.Write("nonsense.txt", "many samples\n1 2:3\n");
  run.Refused({"--data", run.Path("nonsense.txt")}, "begins no known format");
  run.Write("none.txt", "0 10 10\n");
  run.Refused({"--data", run.Path("none.txt")}, run.Path("none.txt"));
  run.Refused({"--data", run.Path("none.txt"), "--labels", "10"}, "give one of them");
  run.Refused({"--labels", "0"}, "--labels");
  run.Refused({"--labels", "9", "--labels-per-sample", "5"}, "--labels-per-sample");
  run.Refused({"--config", run.config(), "--nodes", "4x2x8"}, "--nodes 4x2x8");
  run.Refused({"--config", run.config(), "--nodes", "1x2x8x10", "--servers", "2"}, "--servers");
  run.Refused({"--config", run.config(), "--servers", "0"}, "--servers");
  run.Refused({"--config", run.config(), "--servers", "200", "--workers", "57"},
              "--servers, --workers: 200 servers and 57 workers are more than the 256 processes");
  run.Refused({"--config", run.config(), "--nodes", "128x2x8x100,1x2x8x100"},
              "129 servers and 129 workers are more than the 256 processes");
  run.Refused({"--config", run.config(), "--price", "free"},
              "--price free: must be a number above 0, at most 1000000");
  run.Refused({"--config", run.config(), "--price", "-1"}, "--price -1");
  run.Refused({"--config", run.config(), "--rates", "0"}, "--rates 0");
  run.Refused({"--config", run.config(), "--rates", run.Path("absent.json")},
              run.Path("absent.json"));
  REQUIRE(run.Plan({"--config", run.config(), "--json"}) == 0);
  run.Write("rates.json", run.last_output());
  const Arguments measured = {"--config", run.config(), "--rates", run.Path("rates.json"), "--set"};
  const auto with = [&](const std::string& setting) {
    Arguments arguments = measured;
    arguments.push_back(setting);
    return arguments;
  };
  run.Refused(with("model.hidden=48"), "measured with model.hidden = 32, the run has 48; run");
  run.Refused(with("train.optimizer=sgd"), "the run has sgd; run `dslide plan --json` there");
  run.Write("rates.json", "{\"rates\": [{\"epochs\": \"many\"}]}");
  run.Refused({"--config", run.config(), "--rates", run.Path("rates.json")}, "or no number");
  run.Write("rates.json", "{\"rates\": []}");
  run.Refused({"--config", run.config(), "--rates", run.Path("rates.json")}, "no rates in it");
  run.Refused({"--config", run.config(), "--set", "model.hiden=3"}, "model.hidden");
  run.Refused({"--config", run.config(), "--node", "1x1x1x1"}, "--nodes");
}

}  // namespace
}  // namespace dslide::plan_test
