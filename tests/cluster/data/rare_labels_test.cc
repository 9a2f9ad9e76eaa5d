// Rankings with a logit adjustment: every command ranks by the weight that the run has chosen from
// its held-out samples, and --rare prefers rare labels.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/os.h>

#include <httplib.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/random.h"
#include "tests/cluster/cluster.h"

namespace dslide::rare_labels_test {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kNoisyFeatures = 600, kNoisyLabels = 300;

// Label j occurs about 1 / (j + 1) as often as label 0. Half of the samples have their label as a
// feature, the others another one; all have six features that tell nothing.
void WriteNoisySamples(const std::string& path, uint32_t samples, uint64_t seed) {
  std::vector<uint64_t> ends;  // of each label's part of all draws
  for (uint32_t label = 0; label < kNoisyLabels; ++label) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + 1'000'000 / (label + 1));
  }
  Random random(seed);
  auto file = fmt::output_file(path);
  file.print("{} {} {}\n", samples, kNoisyFeatures, kNoisyLabels);
  for (uint32_t i = 0; i < samples; ++i) {
    const auto label = static_cast<uint32_t>(
        std::ranges::upper_bound(ends, random.Below(ends.back())) - ends.begin());
    std::set<uint64_t> features = {random.Below(2) == 0 ? label : random.Below(kNoisyLabels)};
    while (features.size() < 7) {
      features.insert(kNoisyLabels + random.Below(kNoisyFeatures - kNoisyLabels));
    }
    file.print("{}", label);
    for (const uint64_t feature : features) file.print(" {}:1", feature);
    file.print("\n");
  }
}

struct NoisyRun : TestRun {
  NoisyRun() {
    WriteNoisySamples(Path("train.txt"), 4000, 1);
    WriteNoisySamples(Path("test.txt"), 2000, 2);
  }
  std::string ranking() const { return run_directory() + "/checkpoint/ranking.json"; }
  std::string counts() const { return run_directory() + "/checkpoint/label-counts.tsv"; }

  nlohmann::json Evaluate(const std::string& model, const Arguments& more = {}) {
    REQUIRE(Run("dslide", With({"evaluate", model, "--data", Path("test.txt"), "--json"}, more)) ==
            0);
    return nlohmann::json::parse(last_output());
  }
};

TEST_CASE("rare labels: every command ranks by the choice from held-out samples") {
  NoisyRun run;
  REQUIRE(run.Train({"--servers", "2", "--workers", "2", "--set", "train.heldout=800"})->Wait() ==
          0);
  const nlohmann::json ranking = nlohmann::json::parse(ReadFile(run.ranking()));
  CHECK(ranking["rare_logit_adjustment"] >= ranking["logit_adjustment"]);
  CHECK(run.Summary()["choices"].back().get<std::string>().starts_with("logit adjustment"));
  const auto as_trained = doctest::Approx(run.Summary()["p_at_1"].get<double>()).epsilon(0.003);
  CHECK(run.Evaluate(run.run_directory())["p_at_1"].get<double>() == as_trained);
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", run.Path("m.dslide")}) == 0);
  CHECK(run.Evaluate(run.Path("m.dslide"))["p_at_1"].get<double>() == as_trained);

  // Another ranking, whose usual one puts rare labels lower.
  fs::remove(run.ranking());
  const nlohmann::json without = run.Evaluate(run.run_directory());
  fmt::output_file(run.ranking())
      .print("{{\"logit_adjustment\": -0.5, \"rare_logit_adjustment\": 0.4}}");
  const nlohmann::json usual = run.Evaluate(run.run_directory());
  CHECK(usual["psp_at_1"] < without["psp_at_1"]);
  CHECK(usual["bands"]["head"]["recall_at_1"] > without["bands"]["head"]["recall_at_1"]);
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", run.Path("n.dslide")}) == 0);
  // A column for each preference, by the run and by the file.
  for (const std::string& model : {run.run_directory(), run.Path("n.dslide")}) {
    const nlohmann::json table = run.Evaluate(model, {"--rare-table"});
    REQUIRE(table.size() == 5);
    CHECK(table[0]["psp_at_1"].get<double>() ==
          doctest::Approx(usual["psp_at_1"].get<double>()).epsilon(0.01));
    for (size_t i = 1; i < 5; ++i) CHECK(table[i]["psp_at_1"] > table[i - 1]["psp_at_1"]);
    CHECK(table[4]["rare"] == 1);
    const double half = run.Evaluate(model, {"--rare", "0.5"})["psp_at_1"];
    CHECK(half == doctest::Approx(table[2]["psp_at_1"].get<double>()));
  }
  CHECK(run.Run("dslide", {"evaluate", run.run_directory(), "--data", run.Path("test.txt"),
                           "--rare-table"}) == 0);
  CHECK(Contains(run.last_output(), "rare            0.00   0.25   0.50   0.75   1.00\nP@1"));
}

TEST_CASE("rare labels: one line names a wrong option or file") {
  NoisyRun run;
  REQUIRE(run.Train({"--servers", "1", "--workers", "1"})->Wait() == 0);
  CHECK_FALSE(fs::exists(run.ranking()));  // the run holds no samples out
  const auto refused = [&](const Arguments& more, const std::string& why) {
    CAPTURE(why);
    CHECK(run.Run("dslide", With({"evaluate", run.run_directory(), "--data", run.Path("test.txt")},
                                 more)) == 2);
    CHECK_MESSAGE(Contains(run.last_errors(), why), run.last_errors());
  };
  CHECK(run.Evaluate(run.run_directory(), {"--rare", "1"})["p_at_1"] > 0);
  refused({"--rare", "1.5"}, "--rare 1.5: must be a number from 0 to 1");
  refused({"--rare-table", "--rare", "1"}, "leave --rare out");
  const std::string counts = ReadFile(run.counts());
  for (const char* bad : {"0 7\n", "0\t7", "0\t7\n0\t8\n", "300\t1\n", "0\t0\n", "\n"}) {
    CAPTURE(bad);
    fmt::output_file(run.counts()).print("{}", bad);
    refused({}, "label-counts.tsv, line ");
  }
  fs::remove(run.counts());
  refused({"--rare", "0.5"}, "does not say how many samples a label has");
  CHECK(run.Evaluate(run.run_directory())["p_at_1"] > 0);
  fmt::output_file(run.counts()).print("{}", counts);
  for (const char* bad : {"", "[]", "{}", "{\"logit_adjustment\": 0.2}",
                          "{\"logit_adjustment\": 1e9, \"rare_logit_adjustment\": 0}"}) {
    CAPTURE(bad);
    fmt::output_file(run.ranking()).print("{}", bad);
    refused({}, "ranking.json: must be a JSON object");
  }
}

TEST_CASE("rare labels: serve ranks by --rare") {
  NoisyRun run;
  REQUIRE(run.Train({"--servers", "1", "--workers", "1"})->Wait() == 0);
  auto counts = fmt::output_file(run.counts());
  for (uint32_t label = 0; label < kNoisyLabels; ++label) {
    counts.print("{}\t{}\n", label, label == 7 ? 1 : 2'000'000'000);
  }
  counts.close();
  fmt::output_file(run.ranking())
      .print("{{\"logit_adjustment\": 0, \"rare_logit_adjustment\": 1}}");
  const auto best = [&](const Arguments& more) {
    const auto serve = run.Start(
        "dslide",
        With({"serve", "--model", run.run_directory(), "--bind", "tcp://127.0.0.1:*"}, more));
    REQUIRE(WaitFor([&] { return Contains(serve->Output(), "/\n"); }));
    const std::string output = serve->Output();
    httplib::Client client("127.0.0.1", std::stoi(output.substr(output.rfind(':') + 1)));
    const auto answer =
        client.Post("/predict", R"({"features": {"20": 1}, "k": 1})", "application/json");
    REQUIRE(answer);
    return nlohmann::json::parse(answer->body)["predictions"][0]["labels"][0]["label"];
  };
  CHECK(best({}) != "7");
  CHECK(best({"--rare", "1"}) == "7");
}

}  // namespace
}  // namespace dslide::rare_labels_test
