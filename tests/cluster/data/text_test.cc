// From text to names: a launched cluster trains on raw text, and its model is used with text.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/random.h"
#include "tests/cluster/cluster.h"

namespace dslide::text_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kColours[] = {"red", "green", "blue", "gräulich"};
constexpr const char* kThings[] = {"house", "boat", "tree", "book", "Bücherei"};

// Each label is a colour and a thing; the text names both among other words.
void WriteTexts(const std::string& path, size_t samples, uint64_t seed) {
  std::ofstream file(path);
  Random random(seed);
  for (size_t i = 0; i < samples; ++i) {
    const std::string colour = kColours[random.Below(4)];
    const std::string thing = kThings[random.Below(5)];
    nlohmann::json line;
    line["text"] = "About a " + thing + "\nIt is " + colour + " and has number " +
                   std::to_string(random.Below(100)) + ".";
    line["labels"] = {colour + " " + thing};
    if (i % 10 == 9) line["labels"].push_back("rarely " + std::to_string(seed));
    file << line.dump() << "\n";
  }
}

Arguments Train(const TestRun& run) {
  return {"train",
          "--run-dir",
          run.run_directory(),
          "--servers",
          "2",
          "--workers",
          "2",
          "--set",
          "train.data=" + run.Path("train.jsonl"),
          "--set",
          "train.test=" + run.Path("test.jsonl"),
          "--set",
          "model.hidden=32",
          "--set",
          "cluster.executors=1",
          "--set",
          "train.batch=64",
          "--set",
          "cluster.scheduler_bind=tcp://127.0.0.1:*"};
}

TEST_CASE("a run learns from text, and its model names labels") {
  TestRun run;
  WriteTexts(run.Path("train.jsonl"), 4000, 1);
  WriteTexts(run.Path("test.jsonl"), 300, 2);
  Arguments train = Train(run);
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  CHECK(run.last_output().find(
            "\nfor 4000 samples: H = 32, neurons learned, batches of 64, 16 epochs, "
            "learning rate 0.1, effort normal\n") != std::string::npos);

  // "rarely 2" is no label of the model: its samples have one label that nothing predicts.
  REQUIRE(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                             run.Path("test.jsonl"), "--json"}) == 0);
  const auto figures = nlohmann::json::parse(run.last_output());
  CHECK(figures["p_at_1"] == doctest::Approx(1.0));
  CHECK(figures["unknown_labels"] == 30);
  REQUIRE(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                             run.Path("test.jsonl"), "--show", "10"}) == 0);
  CHECK(run.last_output().find(" | rarely 2\n") != std::string::npos);
  CHECK(Contains(run.last_output(), "30 of the 330 true labels, summed over samples, are unknown"));
  CHECK(figures["recall_at_5"] == doctest::Approx((270 + 30 * 0.5) / 300));

  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                           run.Path("test.jsonl"), "--label-names", run.Path("new.tsv")}) == 2);
  CHECK(run.last_errors() == "dslide evaluate: --label-names " + run.Path("new.tsv") +
                                 ": the model was trained on text, which has its labels' names; "
                                 "leave it out\n");

  std::ofstream(run.Path("new.jsonl")) << "{\"text\": [\"A Bücherei\", \"gräulich it is\"]}\n";
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                             run.Path("new.jsonl"), "--top-k", "1"}) == 0);
  CHECK(run.last_output().starts_with("gräulich Bücherei:"));
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                             run.Path("new.jsonl"), "--top-k", "1", "--json"}) == 0);
  CHECK(nlohmann::json::parse(run.last_output())["labels"][0] == "gräulich Bücherei");

  // The run goes on with the same numbering, though its file has samples of another order by now.
  train.insert(train.end(), {"--resume", "--set", "train.epochs=17"});
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  WriteTexts(run.Path("train.jsonl"), 4000, 3);
  train.insert(train.end(), {"--set", "train.epochs=18"});
  CHECK(run.Run("dslide", train) == 2);
  CHECK(run.last_errors().find("has other samples than this run started with") !=
        std::string::npos);
  CHECK(run.last_errors().find("or begin a new run with this one's model: dslide train --from") !=
        std::string::npos);
}

TEST_CASE("a model of stems, characters and hashes is one in every command") {
  TestRun run;
  WriteTexts(run.Path("train.jsonl"), 4000, 1);
  WriteTexts(run.Path("test.jsonl"), 300, 2);
  Arguments train = Train(run);
  train.insert(train.end(), {"--set", "text.stem=english", "--set", "text.chars=4", "--set",
                             "text.hash_bits=12"});
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  CHECK(Contains(run.last_output(), "4000 samples, 4096 features, "));
  REQUIRE(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                             run.Path("test.jsonl"), "--json"}) == 0);
  CHECK(nlohmann::json::parse(run.last_output())["p_at_1"] == doctest::Approx(1.0));

  // Other forms of the words.
  std::ofstream(run.Path("new.txt")) << "the boats were all of them red\nhouses in greens\n";
  const std::string model = run.Path("model.dslide");
  REQUIRE(run.Run("dslide", {"export", run.run_directory(), "--to", model}) == 0);
  for (const std::string& from : {run.run_directory(), model}) {
    REQUIRE(run.Run("dslide", {"predict", "--checkpoint", from, "--data", run.Path("new.txt"),
                               "--top-k", "1"}) == 0);
    CHECK(run.last_output().starts_with("red boat:"));
    CHECK(Contains(run.last_output(), "\ngreen house:"));
  }
  train.insert(train.end(), {"--resume", "--set", "train.epochs=9"});
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  train.insert(train.end(), {"--set", "text.stem=german"});
  CHECK(run.Run("dslide", train) == 2);
  CHECK(Contains(run.last_errors(), "--resume: text.stem is german but english in checkpoint"));
}

TEST_CASE("options of text that are wrong are refused, and leave nothing") {
  TestRun run;
  WriteTexts(run.Path("train.jsonl"), 100, 1);
  WriteTexts(run.Path("test.jsonl"), 10, 2);
  const auto refused = [&](const Arguments& settings, const std::string& names) {
    CAPTURE(names);
    Arguments train = Train(run);
    for (const std::string& setting : settings) train.insert(train.end(), {"--set", setting});
    CHECK(run.Run("dslide", train) == 2);
    CHECK(Contains(run.last_errors(), names));
    CHECK_FALSE(fs::exists(run.run_directory() + "/checkpoint"));
  };
  refused({"text.stem=klingon"}, "text.stem = klingon: must be off, arabic, ");
  refused({"text.hash_bits=5"}, "text.hash_bits = 5: must be 0, or 10 to 30");
  refused({"text.hash_bits=18", "text.max_features=1000"},
          "text.max_features = 1000: text.hash_bits = 18 makes 262144 features; leave one of the "
          "two keys out");
}

TEST_CASE("text that does not fit is refused with its line, and leaves nothing") {
  TestRun run;
  WriteTexts(run.Path("test.jsonl"), 10, 2);
  std::ofstream(run.Path("train.jsonl"))
      << "{\"text\": \"a\", \"labels\": [\"b\"]}\n{\"text\": 5}\n";
  CHECK(run.Run("dslide", Train(run)) == 2);
  CHECK(run.last_errors().find("train.jsonl:2: \"text\" is not a string") != std::string::npos);
  CHECK_FALSE(fs::exists(run.run_directory() + "/checkpoint"));

  WriteTexts(run.Path("train.jsonl"), 2000, 1);
  REQUIRE(run.Run("dslide", Train(run)) == 0);
  // A model of text wants text.
  std::ofstream(run.Path("numbers.txt")) << "1 10 5\n1 2:1\n";
  CHECK(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                           run.Path("numbers.txt")}) == 2);
  CHECK(run.last_errors().find("numbers.txt: has numbers, but the model was trained on text") !=
        std::string::npos);
  // Plain text is text without labels, and a blank line is a text without words.
  std::ofstream(run.Path("plain.txt")) << "\xef\xbb\xbf"
                                       << "a red boat\n\na green tree";
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory() + "/checkpoint/",
                             "--data", run.Path("plain.txt"), "--top-k", "1"}) == 0);
  const std::string predicted = run.last_output();
  CHECK(predicted.starts_with("red boat:"));
  CHECK(std::count(predicted.begin(), predicted.end(), '\n') == 3);
  CHECK(predicted.find("\ngreen tree:") != std::string::npos);
  CHECK(run.Run("dslide", {"checkpoint", "verify", run.run_directory()}) == 0);
  // The preprocessor belongs to the model.
  for (const auto& entry : fs::directory_iterator(run.run_directory() + "/checkpoint")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("preprocessor-")) fs::resize_file(entry.path(), 100);
  }
  CHECK(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                           run.Path("test.jsonl")}) == 2);
  CHECK(run.last_errors().find("damaged (100 bytes)") != std::string::npos);
  CHECK(run.Run("dslide", {"checkpoint", "verify", run.run_directory()}) == 1);
  CHECK(run.last_output().find("damaged (100 bytes)") != std::string::npos);
  CHECK(run.last_errors().find("damaged (100 bytes)") == std::string::npos);  // it is named once
  CHECK(run.last_errors().find("1 damaged part, listed above; copy") != std::string::npos);
}

TEST_CASE("records that cannot be read are left out, said and counted") {
  TestRun run;
  WriteTexts(run.Path("train.jsonl"), 2000, 1);
  WriteTexts(run.Path("test.jsonl"), 300, 2);
  std::ofstream(run.Path("train.jsonl"), std::ios::app) << R"({"text": "cut \ud83d"})"
                                                        << "\nnonsense\n";
  std::ofstream(run.Path("test.jsonl"), std::ios::app) << "nonsense\n";
  const Arguments train = Train(run);
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  const std::string left_out =
      run.Path("train.jsonl") +
      ": 2 of 2002 records cannot be read and were left out; the first is " +
      run.Path("train.jsonl") + ":2001: ";
  CHECK(Contains(run.last_output(), left_out));
  CHECK(
      Contains(run.last_output(), "test.jsonl: 1 of 301 records cannot be read and were left out"));
  CHECK(Contains(run.last_output(), "\nfirst sample: title 'About a "));
  // The run's record has it, for the status page and the report.
  const std::string metrics = ReadFile(run.run_directory() + "/metrics.jsonl");
  CHECK(Contains(metrics, "2 of 2002 records cannot be read"));
  CHECK(Contains(metrics, "first sample: title 'About a "));
  REQUIRE(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                             run.Path("test.jsonl"), "--json"}) == 0);
  const auto figures = nlohmann::json::parse(run.last_output());
  CHECK(figures["samples"] == 300);
  CHECK(figures["unreadable_records"] == 1);
  CHECK(Contains(run.last_errors(), "test.jsonl:301: 'nonsense' is not JSON"));
  std::ofstream(run.Path("test.jsonl"), std::ios::app) << "a\nb\nc\n";
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                           run.Path("test.jsonl")}) == 2);
  CHECK(Contains(run.last_errors(),
                 "test.jsonl:301: 'nonsense' is not JSON (4 of 304 records cannot "
                 "be read, and at most 1 % are left out)"));
}

// As WriteTexts(), but every second record has another key than "labels".
void WriteMisspelt(const std::string& path, size_t samples, uint64_t seed, size_t every) {
  WriteTexts(path + ".right", samples, seed);
  std::ifstream right(path + ".right");
  std::ofstream file(path);
  size_t number = 0;
  for (std::string line; std::getline(right, line); ++number) {
    if (number % every == 0) line.replace(line.find("\"labels\""), 8, "\"label\"");
    file << line << "\n";
  }
}

TEST_CASE("samples without labels are counted, and a test file without labels is refused") {
  TestRun run;
  WriteMisspelt(run.Path("train.jsonl"), 2000, 1, 2);
  WriteMisspelt(run.Path("test.jsonl"), 100, 2, 1);
  const Arguments train = Train(run);
  CHECK(run.Run("dslide", train) == 2);
  CHECK(
      Contains(run.last_errors(), run.Path("test.jsonl") +
                                      ": nothing to measure: none of 100 samples has a label (100 "
                                      "of them have \"label\" where \"labels\" is expected)"));
  WriteMisspelt(run.Path("test.jsonl"), 100, 2, 4);
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  CHECK(Contains(run.last_output(),
                 "warning: " + run.Path("train.jsonl") +
                     ": 1000 of 2000 samples have no label; 1000 of them have \"label\" where "
                     "\"labels\" is expected\n"));
  CHECK(Contains(run.last_output(), "  (100 test samples, 25 without labels)"));
  CHECK(run.Summary()["evaluated_without_labels"] == 25);
  CHECK(Contains(ReadFile(run.run_directory() + "/metrics.jsonl"), "1000 of 2000 samples have no"));

  const Arguments evaluate = {"evaluate", "--checkpoint", run.run_directory(), "--data"};
  REQUIRE(run.Run("dslide", With(evaluate, {run.Path("test.jsonl"), "--json"})) == 0);
  CHECK(nlohmann::json::parse(run.last_output())["samples_without_labels"] == 25);
  CHECK(Contains(run.last_errors(), "25 of 100 samples have no label; 25 of them have \"label\""));
  WriteMisspelt(run.Path("none.jsonl"), 10, 3, 1);
  std::ofstream(run.Path("plain.txt")) << "a red boat\na green tree\n";
  for (const auto& [name, samples] : {std::pair("none.jsonl", 10), {"plain.txt", 2}}) {
    CAPTURE(name);
    for (const bool json : {false, true}) {
      Arguments arguments = With(evaluate, {run.Path(name)});
      if (json) arguments.push_back("--json");
      if (samples == 2) arguments.insert(arguments.end(), {"--format", "plain"});
      CHECK(run.Run("dslide", arguments) == 2);
      CHECK(run.last_output().empty());
      CHECK(Contains(run.last_errors(), ": nothing to measure: none of " + std::to_string(samples) +
                                            " samples has a label"));
    }
  }
}

// Two colours out of three say "often" and one "seldom", which has a weight of `weight`.
void WriteDisputed(const std::string& path, double weight) {
  std::ofstream file(path);
  for (int i = 0; i < 1800; ++i) {
    nlohmann::json line;
    line["text"] = std::string("It is ") + kColours[i % 2] + " and " + kThings[i % 5];
    const bool seldom = i % 3 == 0;
    line["labels"] = {seldom ? "seldom" : "often"};
    if (seldom && weight != 1) line["weight"] = weight;
    file << line.dump() << "\n";
  }
}

TEST_CASE("a run learns what samples weigh, in both ways of training and with any active set") {
  TestRun run;
  std::ofstream(run.Path("test.jsonl")) << "{\"text\": \"It is red\", \"labels\": [\"seldom\"]}\n";
  int number = 0;
  const auto trained = [&](double weight, const Arguments& more) {
    WriteDisputed(run.Path("train.jsonl"), weight);
    const std::string directory = run.Path("run-" + std::to_string(++number));
    Arguments train = Train(run);
    train[2] = directory;
    for (const char* key : {"train.epochs=4", "text.max_share=1", "train.warmup_batches=0"}) {
      train.insert(train.end(), {"--set", key});
    }
    train.insert(train.end(), more.begin(), more.end());
    REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
    REQUIRE(run.Run("dslide", {"predict", "--checkpoint", directory, "--data",
                               run.Path("test.jsonl"), "--top-k", "1"}) == 0);
    return run.last_output().substr(0, run.last_output().find(':'));
  };
  CHECK(trained(1, {}) == "often");
  CHECK(trained(10, {}) == "seldom");
  CHECK(trained(10, {"--set", "train.staleness=0"}) == "seldom");
  CHECK(trained(0, {"--set", "train.staleness=0"}) == "often");
  for (const char* active : {"model.active=mass", "model.active=lsh"}) {
    CAPTURE(active);
    CHECK(trained(10, {"--set", active}) == "seldom");
  }
}

}  // namespace
}  // namespace dslide::text_test
