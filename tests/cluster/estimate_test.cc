// dslide estimate: what it prints of a small task, and that what cannot be is refused in one line.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "tests/cluster/cluster.h"

namespace dslide::estimate_test {
namespace {

using Json = nlohmann::json;

class EstimateRun : public TestRun {
 public:
  Json Estimated(Arguments arguments) {
    arguments.insert(arguments.begin(), {"estimate", "--json", "--seconds", "1"});
    const int code = Run("dslide", arguments);
    REQUIRE_MESSAGE(code == 0, last_errors());
    return Json::parse(last_output());
  }
  void Refused(Arguments arguments, const std::string& names) {
    CAPTURE(names);
    arguments.insert(arguments.begin(), "estimate");
    CHECK(Run("dslide", arguments) == 2);
    const std::string& errors = last_errors();
    CAPTURE(errors);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
    CHECK(Contains(errors, names));
    CHECK(last_output().empty());
  }
};

TEST_CASE("dslide estimate says of a run that has ended what the run has counted") {
  EstimateRun run;
  REQUIRE(run.Train()->Wait() == 0);
  const Json summary = run.Summary();
  const Json estimate = run.Estimated({"--run", run.run_directory()});
  for (const char* figure : {"bytes_sent_per_sample", "bytes_received_per_sample"}) {
    CHECK(estimate[figure].get<double>() ==
          doctest::Approx(summary[figure].get<double>()).epsilon(0.01));
  }
  CHECK(estimate["lease_bytes_per_sample"] == summary["lease_bytes_per_sample"]);
  CHECK(estimate["server_bytes"].get<double>() / (1 << 20) ==
        doctest::Approx(summary["processes"]["server"]["peak_rss_mb"].get<double>()).epsilon(0.01));
  CHECK(estimate["parameters"] == summary["parameters"]);
  CHECK(estimate["measured_share"] == 1.0);
  run.Refused({"--run", run.run_directory(), "--config", run.config()}, "--run");
  run.Refused({"--run", run.Path("absent")}, run.Path("absent"));
}

TEST_CASE("dslide estimate measures the run that it estimates, and leaves nothing of it") {
  EstimateRun run;
  const Json estimate = run.Estimated({"--config", run.config(), "--servers", "2", "--workers", "3",
                                       "--link", "100", "--cores", "1"});
  CHECK(estimate["samples"].get<int>() + estimate["held_out_samples"].get<int>() == kSamples);
  CHECK(estimate["features"] == kFeatures);
  CHECK(estimate["labels"] == kLabels);
  CHECK(estimate["servers"] == 2);
  CHECK(estimate["workers"] == 3);
  CHECK(estimate["bytes_sent_per_sample"] > 0.0);
  CHECK(estimate["server_bytes"] > estimate["rows_bytes"]);
  const double likely = estimate["samples_per_second"];
  CHECK(likely >= estimate["samples_per_second_low"].get<double>());
  CHECK(likely <= estimate["samples_per_second_high"].get<double>());
  CHECK_FALSE(estimate["bottleneck"].get<std::string>().empty());
  CHECK_FALSE(std::filesystem::exists(run.run_directory()));
}

TEST_CASE("dslide estimate needs no data for memory and disk, and dslide plan is its old name") {
  EstimateRun run;
  REQUIRE(run.Run("dslide", {"plan", "--features", "5000", "--labels", "3000", "--set",
                             "model.hidden=32"}) == 0);
  CHECK(Contains(run.last_errors(), "dslide plan: is dslide estimate now"));
  for (const char* words :
       {"5000 features, 3000 labels", "parameters", "rows", "disk", "not measured"}) {
    CHECK(Contains(run.last_output(), words));
  }
}

TEST_CASE("dslide estimate says everything to people") {
  EstimateRun run;
  REQUIRE(run.Run("dslide", {"estimate", "--seconds", "1", "--config", run.config()}) == 0);
  for (const char* word : {"samples", "parameters", "rows", "disk", "memory", "bytes", "samples/s",
                           "bottleneck", "within"}) {
    CHECK(Contains(run.last_output(), word));
  }
}

TEST_CASE("dslide estimate refuses what does not fit, and wrong uses, before it measures") {
  EstimateRun run;
  run.Refused({"--features", "1000000", "--labels", "5000000", "--servers", "2", "--memory", "2",
               "--link", "100", "--set", "cluster.disk_tier=off"},
              "too little memory: the model needs 6013 MB, each of 2 servers may use 1638 MB");
  run.Refused({}, "no data: name the training file by --data");
  run.Refused({"--labels", "10"}, "no data: name the training file by --data");
  run.Refused({"--features", "10", "--labels", "0"}, "--labels");
  run.Refused({"--data", "-"}, "a stream");
  run.Refused({"--config", run.config(), "--labels", "10"}, "without data");
  run.Refused({"--config", run.config(), "--servers", "0"}, "--servers");
  run.Refused({"--config", run.config(), "--link", "slow"}, "--link slow");
  run.Refused({"--config", run.config(), "--rate", "-1"}, "--rate -1");
  run.Refused({"--config", run.config(), "--cores", "0"}, "--cores 0");
  run.Refused({"--config", run.config(), "--seconds", "0"}, "--seconds 0");
  run.Refused({"--config", run.config(), "--set", "model.hiden=3"}, "model.hidden");
}

TEST_CASE("dslide estimate gives the errors of the run") {
  EstimateRun run;
  const auto refused = [&](Arguments arguments, const std::string& names) {
    CAPTURE(names);
    arguments.insert(arguments.begin(), "estimate");
    CHECK(run.Run("dslide", arguments) == 2);
    CAPTURE(run.last_errors());
    CHECK(Contains(run.last_errors(), names));
    CHECK(run.last_output().empty());
  };
  refused({"--config", run.config(), "--set", "cluster.memory_mb=1", "--set",
           "cluster.disk_tier=off", "--set", "model.hidden=4096"},
          "cluster.memory_mb");
  refused({"--data", run.Path("absent.txt")}, run.Path("absent.txt"));
  std::ofstream(run.Path("none.txt")) << "0 10 10\n";
  refused({"--data", run.Path("none.txt")}, run.Path("none.txt"));
}

}  // namespace
}  // namespace dslide::estimate_test
