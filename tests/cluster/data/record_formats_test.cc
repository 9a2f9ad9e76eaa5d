// The format of a data file, as every command reads it: by many lines, by the model, or by name.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/cluster/cluster.h"

namespace dslide::record_formats_test {
namespace {

constexpr const char* kColours[] = {"red", "green", "blue", "yellow"};

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// A line for each of `count` samples, by its text and label.
using LineOf = std::function<std::string(const std::string& text, const std::string& label)>;
std::string Lines(int count, const LineOf& line_of) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string colour = kColours[i % 4];
    text += line_of(fmt::format("a {} thing number {}", colour, i % 7), "is " + colour) + "\n";
  }
  return text;
}

std::string FastText(const std::string& text, const std::string& label) {
  return text + " __label__" + label.substr(3);
}
std::string Tsv(const std::string& text, const std::string& label) { return text + "\t" + label; }
std::string Json(const std::string& text, const std::string& label) {
  return nlohmann::json({{"text", text}, {"labels", {label}}}).dump();
}
std::string Csv(const std::string& text, const std::string& label) {
  return fmt::format("\"{}\",x,{}", text, label);
}

class FormatsRun : public TestRun {
 public:
  // Trains a model that knows its training data by heart; returns dslide's exit code.
  int TrainOn(const std::string& data, const Arguments& more = {}) {
    return Run("dslide", With({"train",
                               "--run-dir",
                               run_directory(),
                               "--servers",
                               "1",
                               "--workers",
                               "1",
                               "--set",
                               "train.data=" + data,
                               "--set",
                               "model.hidden=16",
                               "--set",
                               "cluster.executors=1",
                               "--set",
                               "train.batch=32",
                               "--set",
                               "train.epochs=8",
                               "--set",
                               "text.min_samples=1",
                               "--set",
                               "text.max_share=1",
                               "--set",
                               "cluster.scheduler_bind=tcp://127.0.0.1:*"},
                              more));
  }
  int Use(const std::string& command, const std::string& data, const Arguments& more = {}) {
    return Run("dslide", With({command, "--checkpoint", run_directory(), "--data", data}, more));
  }
  double PrecisionOn(const std::string& data, const Arguments& more = {}) {
    REQUIRE_MESSAGE(Use("evaluate", data, With({"--json"}, more)) == 0, last_errors());
    return nlohmann::json::parse(last_output())["p_at_1"];
  }
  std::vector<std::string> Predicted(const std::string& data, const Arguments& more = {}) {
    REQUIRE_MESSAGE(Use("predict", data, With({"--top-k", "1"}, more)) == 0, last_errors());
    std::vector<std::string> lines;
    std::istringstream output(last_output());
    for (std::string line; std::getline(output, line);) {
      lines.push_back(line.substr(0, line.find(':')));
    }
    return lines;
  }
};

TEST_CASE("a first line without a label: trained, measured and predicted as the others") {
  for (const bool is_tsv : {false, true}) {
    CAPTURE(is_tsv);
    FormatsRun run;
    const std::string first = "a thing without a label\n";
    Write(run.Path("train"), first + Lines(600, is_tsv ? Tsv : FastText));
    // The test file may have another format than the training file.
    Write(run.Path("test.jsonl"), Lines(100, Json));
    const std::string test = run.Path(is_tsv ? "test.jsonl" : "train");
    REQUIRE_MESSAGE(run.TrainOn(run.Path("train"), {"--set", "train.test=" + test}) == 0,
                    run.last_errors());
    CHECK(run.Summary()["p_at_1"] > 0.98);
    CHECK(Contains(run.last_output(), is_tsv ? "TSV" : "fastText"));
    CHECK(run.PrecisionOn(run.Path("train")) > 0.98);

    // A wrong label changes nothing: labels are not read as words.
    Write(run.Path("new"),
          first + (is_tsv ? "a red thing\tis blue\n" : "a red thing __label__blue\n"));
    CHECK(run.Predicted(run.Path("new"))[1] == (is_tsv ? "is red" : "red"));

    // Another format is refused, whatever the command.
    Write(run.Path("other"), first + Lines(600, is_tsv ? FastText : Tsv));
    for (const char* command : {"predict", "evaluate"}) {
      CHECK(run.Use(command, run.Path("other")) == 2);
      CHECK(Contains(run.last_errors(), is_tsv ? "other:2: 'a red thing number 0 __label__red' is "
                                                 "not TSV, on which the model was trained; name "
                                                 "the file's format by --format (600 of the first "
                                                 "601 lines are not)"
                                               : "other:2: 'a red thing number 0\\x09is red' is "
                                                 "not fastText, on which the model was trained"));
    }
    if (is_tsv) CHECK(run.Use("predict", run.Path("other"), {"--format", "fasttext"}) == 0);
    Write(run.Path("csv"), "id,title,labels\n1,a red thing,is red\n");
    CHECK(run.Use("predict", run.Path("csv")) == 2);
    CHECK(Contains(run.last_errors(), "csv: is CSV by its header, and the model was trained on"));
    CHECK(run.Predicted(run.Path("csv"), {"--format", "csv"}).size() == 1);
  }
}

TEST_CASE("predict writes a line for each record, also for those that cannot be read") {
  FormatsRun run;
  Write(run.Path("train.jsonl"), Lines(400, Json));
  REQUIRE_MESSAGE(run.TrainOn(run.Path("train.jsonl")) == 0, run.last_errors());
  const std::string red = R"({"text": "a red thing"})";
  Write(run.Path("new"), "\n" + red + "\n\n{\"text\": \n\xff\n" + red + "\n\n");
  const std::vector<std::string> lines = run.Predicted(run.Path("new"));
  REQUIRE(lines.size() == 7);
  CHECK(lines[1] == "is red");
  CHECK(lines[3] == "cannot be read");
  CHECK(lines[4] == "cannot be read");
  CHECK(lines[5] == "is red");
  CHECK(Contains(run.last_output(), "\ncannot be read: " + run.Path("new") + ":4: '{\"text\": '"));
  CHECK(Contains(run.last_errors(), "new: 2 of 7 records cannot be read, as their lines say"));
  REQUIRE(run.Use("predict", run.Path("new"), {"--json"}) == 0);
  std::istringstream output(run.last_output());
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(output, line);)
    objects.push_back(nlohmann::json::parse(line));
  REQUIRE(objects.size() == 7);
  CHECK(Contains(objects[3]["error"], "new:4: "));
  CHECK(objects[3]["labels"].empty());
  CHECK_FALSE(objects[5].contains("error"));

  // Plain text: a line of its own format for this file alone, and said.
  Write(run.Path("plain"), "\n\na red thing\n\na green thing\n");
  CHECK(run.Predicted(run.Path("plain")).size() == 5);
  CHECK(Contains(run.last_errors(), "plain: read as plain text"));
  CHECK(run.Use("evaluate", run.Path("plain")) == 2);
  // With a tab it may be TSV, whose labels would be words.
  Write(run.Path("tab"), "first\ttab\na red thing\n");
  CHECK(run.Use("predict", run.Path("tab")) == 2);
  CHECK(Contains(run.last_errors(), "tab:1: 'first\\x09tab' is not JSON lines"));
  CHECK(run.Predicted(run.Path("tab"), {"--format", "plain"})[1] == "is red");
  CHECK(run.Use("predict", run.Path("tab"), {"--format", "xml"}) == 2);
  CHECK(Contains(run.last_errors(), "--format xml: must be records, json, "));
}

TEST_CASE("CSV is read by the names of its columns in every command") {
  FormatsRun run;
  Write(run.Path("train.csv"), "text,year,labels\n" + Lines(400, Csv));
  REQUIRE_MESSAGE(run.TrainOn(run.Path("train.csv")) == 0, run.last_errors());
  CHECK(Contains(run.last_output(), "CSV, 400 samples, "));
  CHECK(run.PrecisionOn(run.Path("train.csv")) > 0.98);
  // Blank lines between records are records, the header is none, and a cell may have lines.
  Write(run.Path("new.csv"), "text,labels,id\n\"a \"\"red\"\"\nthing\",is blue,7\n\nb,c,d,e\n");
  CHECK(run.Predicted(run.Path("new.csv")).size() == 3);
  REQUIRE(run.Use("predict", run.Path("new.csv"), {"--json", "--top-k", "1"}) == 0);
  CHECK(run.last_output().starts_with(R"({"id":"7","labels":["is red"],)"));
  // Columns of other names, in a file of another format than the model's.
  Write(run.Path("new.jsonl"), R"({"body": "a red thing", "tags": "is red;is blue"})"
                               "\n");
  CHECK(run.PrecisionOn(run.Path("new.jsonl"), {"--format", "json", "--fields",
                                                "text:body,labels:tags,separator:;"}) == 1.0);

  const auto data = [&](const Arguments& arguments) {
    REQUIRE_MESSAGE(run.Run("dslide", With({"data"}, arguments)) == 0, run.last_errors());
  };
  data({"stats", run.Path("train.csv"), "--json"});
  CHECK(nlohmann::json::parse(run.last_output())["samples"] == 400);
  CHECK(nlohmann::json::parse(run.last_output())["format"] == "CSV");
  data({"split", run.Path("train.csv"), "--share", "0.3", "--part", run.Path("a.csv"), "--rest",
        run.Path("b.csv")});
  data({"shuffle", run.Path("b.csv"), "--output", run.Path("c.csv")});
  for (const char* name : {"a.csv", "b.csv", "c.csv"}) {
    data({"convert", run.Path(name), "--to", "tsv", "--output", run.Path("out.tsv")});
    CHECK(run.PrecisionOn(run.Path(name)) > 0.98);
  }
}

TEST_CASE("a format that is named is the run's, and its files have to be of it") {
  FormatsRun run;
  Write(run.Path("train"), Lines(400, Tsv));
  CHECK(run.TrainOn(run.Path("train"), {"--format", "json"}) == 2);
  CHECK(Contains(run.last_errors(),
                 "train:1: 'a red thing number 0\\x09is red' is not JSON lines, "
                 "which text.format or --format names"));
  // So does its test file.
  Write(run.Path("test.jsonl"), Lines(100, Json));
  CHECK(run.TrainOn(run.Path("train"), {"--format", "tsv", "--test", run.Path("test.jsonl")}) == 2);
  CHECK(Contains(run.last_errors(), "is not TSV, which text.format or --format names"));
  CHECK(run.TrainOn(run.Path("train"), {"--set", "text.format=tsv"}) == 0);
  // The format is the run's from now on; looking at the file again changes nothing.
  CHECK(run.TrainOn(run.Path("train"), {"--resume", "--set", "train.epochs=9"}) == 0);
  std::ifstream config(run.run_directory() + "/config.ini");
  CHECK(Contains({std::istreambuf_iterator<char>(config), {}}, "\nformat = tsv\n"));
  // A new run with the same model may have data of another one.
  Write(run.Path("more.jsonl"), Lines(100, Json));
  CHECK(run.Run("dslide",
                {"train", "--from", run.run_directory(), "--run-dir", run.Path("b"), "--set",
                 "train.data=" + run.Path("more.jsonl"), "--set", "train.epochs=1"}) == 0);
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", run.Path("b"), "--data",
                           run.Path("more.jsonl")}) == 0);
}

}  // namespace
}  // namespace dslide::record_formats_test
