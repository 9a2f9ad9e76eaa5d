// Data whose values are far from those of text: all of them are divided by the median length of a
// training sample, in training and wherever the model is used.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "tests/cluster/cluster.h"
#include "tests/support/results.h"

namespace dslide::lengths_test {
namespace {

// A power of two: values that are so much greater differ in their exponents alone.
constexpr float kScale = 256;

// A copy of a file of numbers, every value kScale times as great.
void WriteScaled(const std::string& from, const std::string& to) {
  std::ifstream in(from);
  std::ofstream out(to);
  std::string line;
  std::getline(in, line);
  out << line << "\n";
  while (std::getline(in, line)) {
    std::istringstream entries(line);
    std::string entry;
    entries >> entry;
    out << entry;
    while (entries >> entry) {
      const size_t colon = entry.find(':');
      out << fmt::format(" {}:{}", entry.substr(0, colon),
                         kScale * std::stof(entry.substr(colon + 1)));
    }
    out << "\n";
  }
}

class LengthsRun : public TestRun {
 public:
  LengthsRun() {
    for (const std::string name : {"train", "test"}) {
      WriteScaled(Path(name + ".txt"), Path(name + "-long.txt"));
    }
  }

  // Trains synchronously, and returns what the run printed.
  std::string Trained(const std::string& name, const Arguments& more) {
    const int code = Run("dslide", With({"train", "--config", config(), "--run-dir", Path(name),
                                         "--set", "train.staleness=0", "--set", "train.batch=128"},
                                        more));
    REQUIRE_MESSAGE(code == 0, last_errors());
    return last_output();
  }
  Arguments LongData() const {
    return {"--set", "train.data=" + Path("train-long.txt"), "--set",
            "train.test=" + Path("test-long.txt")};
  }

  std::string Predictions(const std::string& model, const std::string& data) {
    const int code = Run("dslide", {"predict", "--checkpoint", model, "--data", Path(data),
                                    "--search", "exact", "--output", Path("predictions")});
    REQUIRE_MESSAGE(code == 0, last_errors());
    return ReadFile(Path("predictions"));
  }
  std::string Measures(const std::string& model, const std::string& data) {
    const int code = Run(
        "dslide", {"evaluate", "--checkpoint", model, "--data", Path(data), "--search", "exact"});
    REQUIRE_MESSAGE(code == 0, last_errors());
    const std::string text = last_output();
    const size_t table = text.find("\nP ");
    REQUIRE(table != std::string::npos);
    return text.substr(table, text.find("coverage") - table);
  }

  float DivisorOf(const std::string& name) const {
    const auto config = LoadConfig(Path(name) + "/config.ini", {});
    REQUIRE(config.ok());
    REQUIRE(config->train.normalize.has_value());
    return *config->train.normalize;
  }
};

TEST_CASE("lengths: values that are all greater train the same model and are scored alike") {
  LengthsRun run;
  const std::string said = run.Trained("long", run.LongData());
  CHECK(Contains(said, "learning rate 0.01, values divided by 296.3, effort normal\n"));
  CHECK(Contains(said,
                 "the median length of a sample is 296.3: all feature values are divided by it "
                 "(train.normalize)\n"));
  const float divisor = run.DivisorOf("long");
  CHECK(divisor == doctest::Approx(kScale * std::sqrt(1 + 0.25 + 0.09)));
  const std::string usual =
      run.Trained("usual", {"--set", fmt::format("train.normalize={}", divisor / kScale)});
  CHECK_FALSE(Contains(usual, "median length"));
  const auto summary = [&](const std::string& name) {
    return nlohmann::json::parse(ReadFile(run.Path(name) + "/summary.json"));
  };
  CHECK(summary("long")["loss"] == summary("usual")["loss"]);
  CHECK(summary("long")["p_at_1"] == summary("usual")["p_at_1"]);
  CHECK(summary("long")["p_at_1"] > 0.95);

  CHECK(run.Predictions(run.Path("long"), "test-long.txt") ==
        run.Predictions(run.Path("usual"), "test.txt"));
  CHECK(run.Measures(run.Path("long"), "test-long.txt") ==
        run.Measures(run.Path("usual"), "test.txt"));
  for (const std::string name : {"long", "usual"}) {
    const int code =
        run.Run("dslide", {"export", run.Path(name), "--to", run.Path(name + ".dslide")});
    REQUIRE_MESSAGE(code == 0, run.last_errors());
  }
  CHECK(run.Predictions(run.Path("long.dslide"), "test-long.txt") ==
        run.Predictions(run.Path("usual.dslide"), "test.txt"));
}

TEST_CASE("lengths: a resumed run and a run from a model keep the divisor") {
  LengthsRun run;
  (void)run.Trained("first", run.LongData());
  const float divisor = run.DivisorOf("first");
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.Path("first"), "--set",
                             "train.epochs=4"}) == 0);
  CHECK(Contains(run.last_output(), ", values divided by 296.3, effort normal\n"));
  CHECK(run.DivisorOf("first") == divisor);
  // Other data does not change it.
  REQUIRE(run.Run("dslide", {"train", "--from", run.Path("first"), "--run-dir", run.Path("next"),
                             "--set", "train.data=" + run.Path("train.txt"), "--set",
                             "train.test=", "--set", "train.epochs=1"}) == 0);
  CHECK(run.DivisorOf("next") == divisor);
  CHECK(Contains(run.last_output(),
                 "the median length of a sample is 1.158, and train.normalize "
                 "is 296."));
  CHECK(run.Run("dslide",
                {"train", "--from", run.Path("first"), "--run-dir", run.Path("other"), "--set",
                 "train.data=" + run.Path("train.txt"), "--set", "train.normalize=off"}) == 2);
  CHECK(Contains(run.last_errors(), "train.normalize is off but 296."));
}

// Removes the key from an INI text, as a version without the key would have written it.
std::string WithoutKey(const std::string& text) {
  return std::regex_replace(text, std::regex("\nnormalize = [^\n]*"), "");
}

TEST_CASE("lengths: a model without train.normalize has the divisor 1, also when resumed") {
  LengthsRun run;
  (void)run.Trained("old", With(run.LongData(), {"--set", "train.normalize=off", "--set",
                                                 "train.learning_rate=0.00001"}));
  const std::string predictions = run.Predictions(run.Path("old"), "test-long.txt");
  const std::string checkpoint = Ok(FindCheckpoint(run.Path("old")));
  Manifest manifest = Ok(ReadManifest(checkpoint));
  REQUIRE(WithoutKey(manifest.config) != manifest.config);
  manifest.config = WithoutKey(manifest.config);
  REQUIRE(WriteManifest(checkpoint, manifest).ok());
  const std::string ini = run.Path("old") + "/config.ini";
  std::ofstream(ini + ".old") << WithoutKey(ReadFile(ini));
  REQUIRE(std::rename((ini + ".old").c_str(), ini.c_str()) == 0);

  CHECK(run.Predictions(run.Path("old"), "test-long.txt") == predictions);
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.Path("old"), "--set",
                             "train.epochs=4"}) == 0);
  CHECK(run.DivisorOf("old") == 1.0f);
  CHECK(Contains(run.last_output(),
                 "the median length of a sample is 296.3, and train.normalize "
                 "is off: training may diverge"));
}

TEST_CASE("lengths: a run of a version without train.normalize is resumed without a checkpoint") {
  LengthsRun run;
  // It has a ledger, and was stopped before anything was trained.
  const auto scheduler = run.Start(
      "dslide-scheduler", With({"--config", run.config(), "--run-dir", run.Path("old"), "--set",
                                "train.staleness=0", "--set", "train.batch=128", "--set",
                                "train.normalize=off", "--set", "train.learning_rate=0.00001"},
                               run.LongData()));
  const std::string address = run.Path("old") + "/scheduler.address";
  REQUIRE(WaitFor([&] { return std::filesystem::exists(address); }));
  scheduler->Signal(SIGTERM);
  REQUIRE(scheduler->Wait());
  REQUIRE_FALSE(FindCheckpoint(run.Path("old")).ok());
  const std::string ini = run.Path("old") + "/config.ini";
  const std::string old = WithoutKey(ReadFile(ini));
  std::ofstream(ini) << old;
  REQUIRE_MESSAGE(run.Run("dslide", {"train", "--resume", "--run-dir", run.Path("old")}) == 0,
                  run.last_errors());
  CHECK(run.DivisorOf("old") == 1.0f);
}

TEST_CASE("lengths: values that are out of range once they are divided are refused") {
  LengthsRun run;
  const auto refused = [&](const Arguments& more, const std::string& names) {
    CHECK(run.Run("dslide", With({"train", "--config", run.config(), "--run-dir", run.Path("bad")},
                                 more)) == 2);
    CHECK_MESSAGE(Contains(run.last_errors(), names), run.last_errors());
  };
  refused({"--set", "train.normalize=1e-10"},
          run.Path("train.txt") + ": sample 1: the value of feature ");
  refused({"--set", "train.normalize=1e-10"},
          ", divided by 1e-10 (train.normalize) (expected at most 1e+09; scale the data)");
  refused({"--set", "train.normalize=0"}, "must be auto, off, or a number above 0");
}

}  // namespace
}  // namespace dslide::lengths_test
