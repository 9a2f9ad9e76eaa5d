// A model trains on data of every format, also from standard input, and without its rarest labels.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/data/numbers/npz_writer.h"
#include "common/data/xc_reader.h"
#include "tests/cluster/cluster.h"
#include "tests/support/results.h"

namespace dslide::formats_test {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Trains on this run's configuration; the exit code.
int Train(TestRun* run, const Arguments& settings, const Arguments& more = {}) {
  Arguments arguments = {"train", "--config", run->config(), "--run-dir", run->run_directory()};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run->Run("dslide", arguments);
}

nlohmann::json Evaluate(TestRun* run, const std::string& data) {
  const int code = run->Run(
      "dslide", {"evaluate", "--checkpoint", run->run_directory(), "--data", data, "--json"});
  REQUIRE_MESSAGE(code == 0, run->last_errors());
  return nlohmann::json::parse(run->last_output());
}

// The run's own final measures are those of dslide evaluate.
void CheckSameMeasures(const TestRun& run, const nlohmann::json& evaluated) {
  const nlohmann::json summary = run.Summary();
  for (const char* key : {"p_at_1", "p_at_5", "ndcg_at_3", "psp_at_1", "psp_at_3", "psp_at_5"}) {
    CAPTURE(key);
    CHECK(summary[key].get<double>() ==
          doctest::Approx(evaluated[key].get<double>()).epsilon(1e-6));
  }
}

void Convert(TestRun* run, const std::string& from, const std::string& to,
             const std::string& output) {
  const int code = run->Run("dslide", {"data", "convert", from, "--to", to, "--output", output});
  REQUIRE_MESSAGE(code == 0, run->last_errors());
}

TEST_CASE("LIBSVM and npz train as numbers do") {
  TestRun run;
  const auto pair = [&](const std::string& name) {
    return run.Path(name + "-x.npz") + "," + run.Path(name + "-y.npz");
  };
  for (const std::string name : {"train", "test"}) {
    Convert(&run, run.Path(name + ".txt"), "libsvm", run.Path(name + ".svm"));
    Convert(&run, run.Path(name + ".txt"), "npz", pair(name));
  }
  // A later file may have what the model lacks.
  std::ofstream(run.Path("test.svm"), std::ios::app) << "7,100000 7:1 99999:3\n";
  REQUIRE_MESSAGE(Train(&run, {"train.data=" + run.Path("train.svm"),
                               "train.test=" + run.Path("test.svm")}) == 0,
                  run.last_errors());
  const auto svm = Evaluate(&run, run.Path("test.svm"));
  CHECK(Contains(run.last_errors(), run.Path("test.svm") +
                                        ": 1 feature value left out, with ids above those of the "
                                        "model's 300 features"));
  CHECK(svm["samples"] == kTestSamples + 1);
  CHECK(svm["unknown_labels"] == 1);
  CHECK(svm["p_at_1"] > 0.9);
  // Other formats of the same samples give the same.
  const auto numbers = Evaluate(&run, run.Path("test.txt"));
  CHECK(numbers["unknown_labels"] == 0);
  const auto npz = Evaluate(&run, pair("test"));
  CHECK(npz["p_at_1"] == numbers["p_at_1"]);
  CHECK(npz["psp_at_1"] == numbers["psp_at_1"]);
  // To predict, the matrix of features is enough; to evaluate it is not.
  const auto predict = [&](const std::string& data) {
    // By one way of searching: which one is the cheapest is measured, and they round differently.
    REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data", data,
                               "--search", "exact"}) == 0);
    return run.last_output();
  };
  CHECK(predict(run.Path("test-x.npz")) == predict(run.Path("test.txt")));
  const auto refused = [&](const Arguments& arguments, const std::string& names) {
    CHECK(run.Run("dslide", arguments) == 2);
    const std::string& errors = run.last_errors();
    CAPTURE(errors);
    CHECK(std::ranges::count(errors, '\n') == 1);
    CHECK_MESSAGE(Contains(errors, names), names);
  };
  const Arguments evaluate = {"evaluate", "--checkpoint", run.run_directory(), "--data"};
  const auto evaluate_refused = [&](const std::string& data, const std::string& names) {
    Arguments arguments = evaluate;
    arguments.push_back(data);
    refused(arguments, names);
  };
  evaluate_refused(run.Path("test-x.npz"), run.Path("test-x.npz") + ": has no labels (name both");
  evaluate_refused(run.Path("test-x.npz") + "," + run.Path("train-y.npz"),
                   "train-y.npz: 6000 rows, but " + run.Path("test-x.npz") + " has 500");
  evaluate_refused(run.Path("test-y.npz") + "," + run.Path("test-x.npz"),
                   ": 200 features and 300 labels, but the model in");
  evaluate_refused(run.Path("test-x.npz") + ",", ": has no labels (name both");
  fs::resize_file(run.Path("test-x.npz"), 2000);
  evaluate_refused(pair("test"), run.Path("test-x.npz") + ": cannot open: Not a zip archive");
  Write(run.Path("words.txt"), "only words\n");
  evaluate_refused(run.Path("words.txt"), "words.txt:1: bad header 'only words'");
}

// `rows` rows of float32 as numpy.save() writes them.
void WriteDense(const std::string& path, const std::vector<std::vector<float>>& rows) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows.size()) + ", " + std::to_string(rows[0].size()) + "), }";
  header.resize(117, ' ');
  std::ofstream out(path, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(118) << '\0' << header << '\n';
  for (const std::vector<float>& row : rows) {
    out.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(4 * row.size()));
  }
}

// The features of a file of numbers from `first` to `end` - 1.
std::vector<std::vector<float>> DenseFeatures(const std::string& path, uint32_t first,
                                              uint32_t end) {
  const Dataset data = Ok(ReadXcFile(path));
  std::vector<std::vector<float>> rows(data.size(), std::vector<float>(end - first, 0.0f));
  for (size_t i = 0; i < data.size(); ++i) {
    const SampleView sample = data[i];
    for (size_t e = 0; e < sample.features.size(); ++e) {
      const uint32_t id = sample.features[e];
      if (id >= first && id < end) rows[i][id - first] = sample.values[e];
    }
  }
  return rows;
}

TEST_CASE("dense vectors train as the same numbers do, alone and beside sparse features") {
  // The last 100 features are a vector, the others words; or all are a vector.
  TestRun sparse, all, beside;
  const Arguments synchronous = {"train.staleness=0", "train.epochs=2", "model.active=mass",
                                 "cluster.wire=auto"};
  const auto train = [&](TestRun* run, const std::string& data, const std::string& test) {
    Arguments settings = synchronous;
    settings.insert(settings.end(), {"train.data=" + data, "train.test=" + test});
    REQUIRE_MESSAGE(Train(run, settings) == 0, run->last_errors());
  };
  const auto name = [&](const std::string& of) { return all.Path(of); };
  for (const std::string set : {"train", "test"}) {
    const std::string numbers = sparse.Path(set + ".txt");
    Convert(&all, numbers, "npz", name(set + "-x.npz") + "," + name(set + "-y.npz"));
    WriteDense(name(set + "-v.npy"), DenseFeatures(numbers, 0, kFeatures));
    WriteDense(name(set + "-w.npy"), DenseFeatures(numbers, 200, kFeatures));
    // The words alone: a matrix of 200 columns.
    const Dataset data = Ok(ReadXcFile(numbers));
    NpzWriter words = Ok(NpzWriter::Create(name(set + "-words.npz")));
    for (size_t i = 0; i < data.size(); ++i) {
      const SampleView s = data[i];
      const auto count =
          static_cast<size_t>(std::ranges::lower_bound(s.features, 200u) - s.features.begin());
      words.AddRow(s.features.first(count), s.values.first(count));
    }
    REQUIRE(words.Finish(200).ok());
  }
  const auto vectors = [&](const std::string& set) { return name(set + "-v.npy"); };
  const auto blocks = [&](const std::string& set) {
    return name(set + "-words.npz") + "+" + name(set + "-w.npy");
  };
  const auto labels = [&](const std::string& set) { return "," + name(set + "-y.npz"); };
  train(&sparse, sparse.Path("train.txt"), sparse.Path("test.txt"));
  train(&all, vectors("train") + labels("train"), vectors("test") + labels("test"));
  CHECK(Contains(all.last_output(),
                 vectors("train") + labels("train") + ": dense 300 float32, 6000 samples, "));
  train(&beside, blocks("train") + labels("train"), blocks("test") + labels("test"));
  CHECK(Contains(beside.last_output(), ": npz + dense 100 float32, 6000 samples, 300 features, "));
  const auto numbers = Evaluate(&sparse, sparse.Path("test.txt"));
  CHECK(numbers["p_at_1"] > 0.5);
  for (TestRun* run : {&all, &beside}) {
    for (const std::string& data : {vectors("test"), blocks("test")}) {
      const auto measured = Evaluate(run, data + labels("test"));
      CHECK(measured["p_at_1"] == numbers["p_at_1"]);
      CHECK(measured["ndcg_at_5"] == numbers["ndcg_at_5"]);
    }
  }
  // To predict, the features are enough.
  const auto predict = [&](TestRun* run, const std::string& data) {
    // One way of search: which one is quicker may differ from run to run, and so does its rounding.
    REQUIRE(run->Run("dslide", {"predict", "--checkpoint", run->run_directory(), "--data", data,
                                "--search", "exact"}) == 0);
    return run->last_output();
  };
  const std::string predicted = predict(&sparse, sparse.Path("test.txt"));
  CHECK(predict(&all, vectors("test")) == predicted);
  CHECK(predict(&beside, blocks("test")) == predicted);
  // Conversion says what was read, and gives the same numbers.
  Convert(&all, blocks("test") + labels("test"), "numbers", name("again.txt"));
  CHECK(ReadFile(name("again.txt")) == ReadFile(sparse.Path("test.txt")));
  REQUIRE(all.Run("dslide", {"data", "stats", blocks("test") + labels("test"), "--json"}) == 0);
  const auto stats = nlohmann::json::parse(all.last_output());
  CHECK(stats["format"] == "npz + dense 100 float32");
  CHECK(stats["samples"] == kTestSamples);
  CHECK(stats["header"]["features"] == kFeatures);
  // What does not fit gets one line.
  const auto refused = [&](const Arguments& arguments, const std::string& names) {
    CHECK(all.Run("dslide", arguments) == 2);
    const std::string& errors = all.last_errors();
    CAPTURE(errors);
    CHECK(std::ranges::count(errors, '\n') == 1);
    CHECK_MESSAGE(Contains(errors, names), names);
  };
  refused({"train", "--config", all.config(), "--run-dir", name("none"), "--set",
           "train.data=" + vectors("train")},
          "-v.npy: has no labels (name both matrices");
  refused({"evaluate", "--checkpoint", all.run_directory(), "--data",
           name("test-w.npy") + labels("test")},
          ": 100 features and 200 labels, but the model in");
  const auto convert_refused = [&](const std::string& output, const std::string& names) {
    refused(
        {"data", "convert", vectors("test") + labels("test"), "--to", "npz", "--output", output},
        names);
  };
  convert_refused(name("o.npy") + "," + name("o.npz"), "o.npy: no dense matrix can be written");
  convert_refused(name("o.npz") + "+" + name("p.npz") + "," + name("q.npz"),
                  "npz wants a file of features and one of labels");
  convert_refused(vectors("test") + "," + name("o.npz"), "test-v.npy: is the input");
  CHECK_FALSE(fs::exists(name("o.npz")));
  fs::resize_file(vectors("test"), 2000);
  refused({"data", "stats", vectors("test")}, "test-v.npy: the array ends early");
}

TEST_CASE("training data of wrong numbers is refused") {
  TestRun run;
  const auto refused = [&](const std::string& data, const std::string& names) {
    CHECK(Train(&run, {"train.data=" + data}) == 2);
    const std::string& errors = run.last_errors();
    CAPTURE(errors);
    CHECK(std::ranges::count(errors, '\n') == 1);
    CHECK_MESSAGE(Contains(errors, names), names);
    CHECK_FALSE(fs::exists(run.run_directory() + "/checkpoint"));
  };
  Convert(&run, run.Path("train.txt"), "npz", run.Path("x.npz") + "," + run.Path("y.npz"));
  refused(run.Path("x.npz"), run.Path("x.npz") + ": has no labels (name both matrices");
  refused(run.Path("x.npz") + "," + run.Path("none.npz"), run.Path("none.npz") + ": cannot open");
  Write(run.Path("a.svm"), " 1:2\n 3:4\n");
  refused(run.Path("a.svm"), run.Path("a.svm") + ": no sample has a label");
  Write(run.Path("a.svm"), "1\n2,3\n");
  refused(run.Path("a.svm"), run.Path("a.svm") + ": no sample has a feature");
  Write(run.Path("a.svm"), "1 1:1\n-1 2:2\n");
  refused(run.Path("a.svm"), run.Path("a.svm") + ":2: bad label '-1'");
  Write(run.Path("a.svm"), "1 1:1\n1 4294967295:2\n");
  refused(run.Path("a.svm"), run.Path("a.svm") + ":2: feature id '4294967295' is out of range");
}

TEST_CASE("predictions as JSON have the ids of the samples") {
  TestRun run;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "{\"text\": \"red\", \"labels\": [\"a\"]}\n";
  for (int i = 0; i < 200; ++i) text += "{\"text\": \"blue\", \"labels\": [\"b\"]}\n";
  Write(run.Path("train.jsonl"), text);
  REQUIRE(Train(&run, {"train.data=" + run.Path("train.jsonl"), "train.test="}) == 0);
  Write(run.Path("new.jsonl"),
        "{\"id\": \"x:1\", \"text\": \"red\"}\n\n{\"text\": \"blue\"}\n"
        "{\"text\": \"blue\", \"id\": 3}\n");
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                             run.Path("new.jsonl"), "--json", "--top-k", "1"}) == 0);
  std::vector<nlohmann::json> lines;
  std::istringstream output(run.last_output());
  for (std::string line; std::getline(output, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 4);  // a blank line is a record without words
  CHECK(lines[0]["id"] == "x:1");
  CHECK(lines[0]["labels"][0] == "a");
  CHECK_FALSE(lines[1].contains("id"));
  CHECK_FALSE(lines[2].contains("id"));
  CHECK(lines[2]["labels"][0] == "b");
  CHECK(lines[3]["id"] == 3);
  CHECK(lines[3]["labels"][0] == "b");
}

// "label i", of all labels but 7.
std::string NamesOfLabels() {
  std::string names;
  for (int i = 0; i < kLabels; ++i) {
    if (i != 7) names += std::to_string(i) + "\tlabel " + std::to_string(i) + "\n";
  }
  return names;
}

TEST_CASE("label names are checked when training starts") {
  TestRun run;
  const auto refused = [&](const Arguments& settings, const std::string& names) {
    CHECK(Train(&run, settings) == 2);
    const std::string& errors = run.last_errors();
    CAPTURE(errors);
    CHECK(std::ranges::count(errors, '\n') == 1);
    CHECK_MESSAGE(Contains(errors, names), names);
    CHECK_FALSE(fs::exists(run.run_directory() + "/checkpoint"));
  };
  const std::string path = run.Path("names.tsv");
  const std::string setting = "train.label_names=" + path;
  refused({setting}, "train.label_names: " + path + ": cannot open: No such file");
  Write(path, NamesOfLabels() + "200\tone too many\n");
  refused({setting}, path + ":200: label id '200' is out of range (the data has 200 labels)");
  Write(path, "1\t\xff\n");
  refused({setting}, path + ": the name of label 1 is not UTF-8");
  Write(path, NamesOfLabels());
  Write(run.Path("train.tsv"), "a b\tc\na b\tc\n");
  refused({setting, "train.data=" + run.Path("train.tsv"), "train.test=", "text.max_share=1"},
          "train.label_names = " + path + ": train.data is text, which has its labels' names");
}

TEST_CASE("label names go where the model goes") {
  TestRun run;
  const std::string path = run.Path("names.tsv");
  Write(path, NamesOfLabels());
  REQUIRE(Train(&run, {"train.label_names=" + path}) == 0);
  fs::remove(path);
  fs::rename(run.run_directory(), run.Path("moved"));
  const std::string moved = run.Path("moved"), file = run.Path("m.dslide");
  REQUIRE_MESSAGE(run.Run("dslide", {"export", moved, "--to", file}) == 0, run.last_errors());
  Write(run.Path("one.txt"), "2 300 200\n7 7:1\n17 17:1\n");
  const auto ran = [&](const Arguments& arguments) {
    const int code = run.Run("dslide", arguments);
    REQUIRE_MESSAGE(code == 0, run.last_errors());
    return run.last_output();
  };
  for (const std::string& model : {moved, file}) {
    const Arguments common = {"--checkpoint", model, "--data", run.Path("one.txt"), "--top-k", "1"};
    const auto with = [&](const std::string& command, const Arguments& more) {
      Arguments arguments = {command};
      arguments.insert(arguments.end(), common.begin(), common.end());
      arguments.insert(arguments.end(), more.begin(), more.end());
      return arguments;
    };
    const std::string predictions = ran(with("predict", {"--json"}));
    CHECK(Contains(predictions, "\"labels\":[\"7\"]"));
    CHECK(Contains(predictions, "\"labels\":[\"label 17\"]"));
    CHECK(Contains(ran(with("predict", {})), "\nlabel 17:"));
    CHECK(Contains(ran(with("evaluate", {"--show", "2"})), "true:      label 17\n"));
    ran(with("evaluate", {"--per-sample", run.Path("samples")}));
    CHECK(Contains(ReadFile(run.Path("samples")), "\"labels\":[\"label 17\"]"));
    Write(path, "17\tother\n");
    CHECK(Contains(ran(with("evaluate", {"--show", "2", "--label-names", path})),
                   "true:      other\n"));
  }
  fs::remove(path);
  fs::remove(moved + "/checkpoint/label-names.tsv");
  CHECK(run.Run("dslide", {"predict", "--checkpoint", moved, "--data", run.Path("one.txt")}) == 2);
  CHECK(Contains(run.last_errors(), "put the file there, or at "));
  // A run that goes on.
  fs::rename(moved, run.run_directory());
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory()}) == 2);
  CHECK(Contains(run.last_errors(), "train.label_names: "));
  Write(path, NamesOfLabels());
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                           "train.label_names=" + path, "--set", "train.epochs=3"}) == 0);
  CHECK(fs::exists(run.run_directory() + "/checkpoint/label-names.tsv"));
}

TEST_CASE("evaluate and predict read standard input and write standard output") {
  TestRun run;
  REQUIRE(run.Train()->Wait() == 0);
  const std::string data = run.Path("test.txt");
  const auto model = [&](const std::string& command, const Arguments& more) {
    Arguments arguments = {command, "--checkpoint", run.run_directory()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const auto ran = [&](const Arguments& arguments) {
    const int code = run.Run("dslide", arguments);
    REQUIRE_MESSAGE(code == 0, run.last_errors());
    return run.last_output();
  };
  const std::string predictions = ran(model("predict", {"--data", data, "--search", "exact"}));
  const auto measures_of = [](const std::string& text) {
    auto json = nlohmann::json::parse(text);
    json.erase("seconds");
    return json;
  };
  const auto measures =
      measures_of(ran(model("evaluate", {"--data", data, "--search", "exact", "--json"})));
  for (const auto kind : {StandardInput::Kind::kFile, StandardInput::Kind::kPipe}) {
    {
      const StandardInput input(data, kind);
      CHECK(ran(model("predict", {"--data", "-", "--search", "exact", "--output", "-"})) ==
            predictions);
    }
    {
      const StandardInput input(data, kind);
      const Arguments given = {"--data", "-", "--search", "exact", "--json"};
      CHECK(measures_of(ran(model("evaluate", given))) == measures);
    }
    const StandardInput input(run.Path("train.txt"), kind);
    const Arguments given = {"--data", data, "--search", "exact", "--json", "--train", "-"};
    CHECK(measures_of(ran(model("evaluate", given))) == measures);
  }
  CHECK(ran(model("evaluate", {"--data", data, "--search", "exact", "--output", "-"})) ==
        predictions);
  CHECK(Contains(run.last_errors(), "500 samples in "));
  const StandardInput input(data, StandardInput::Kind::kPipe);
  CHECK(run.Run("dslide", model("evaluate", {"--data", "-", "--train", "-"})) == 2);
  CHECK(Contains(run.last_errors(), "--train /dev/stdin: is read once, as --data"));
  CHECK(run.Run("dslide",
                model("evaluate", {"--data", data, "--output", "-", "--per-sample", "-"})) == 2);
  CHECK(Contains(run.last_errors(), "--per-sample -: would be written twice"));
}

TEST_CASE("evaluate and export do not wait for a pipe that the run was trained on") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1"})->Wait() == 0);
  fs::rename(run.Path("test.txt"), run.Path("kept.txt"));
  fs::remove(run.Path("train.txt"));
  for (const char* name : {"train.txt", "test.txt"}) {
    REQUIRE(mkfifo(run.Path(name).c_str(), 0600) == 0);
  }
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                           run.Path("kept.txt")}) == 0);
  CHECK(Contains(run.last_output(), "without PSP, PSnDCG and bands: " + run.Path("train.txt") +
                                        ": is read once (name the training file by --train)"));
  CHECK(run.Run("dslide", {"export", run.run_directory(), "--to", run.Path("m.dslide")}) == 0);
  CHECK(Contains(run.last_errors(), "index: none, " + run.Path("train.txt") + ": is read once"));
}

TEST_CASE("training data from standard input is kept in the run directory") {
  TestRun run;
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "words " + std::to_string(i % 7) + " __label__" + std::to_string(i % 7) + "\n";
  }
  Write(run.Path("train.ft"), text);
  const std::string kept = run.run_directory() + "/train.data.zst";
  const auto refused = [&](const std::string& names) {
    const std::string& errors = run.last_errors();
    CAPTURE(errors);
    CHECK(std::ranges::count(errors, '\n') == 1);
    CHECK_MESSAGE(Contains(errors, names), names);
    CHECK_FALSE(fs::exists(kept));
    CHECK_FALSE(fs::exists(kept + ".tmp"));
  };
  {
    const StandardInput input("/dev/null");
    CHECK(Train(&run, {"train.data=-", "train.test="}) == 2);
    refused("train.data = -: standard input is empty");
  }
  Write(run.Path("bad.ft"), "a __label__b\n\xff __label__c\n");
  {
    const StandardInput input(run.Path("bad.ft"));
    CHECK(Train(&run, {"train.data=-", "train.test="}) == 2);
    refused("is not UTF-8");
  }
  CHECK(Train(&run, {"train.test=-"}) == 2);
  refused("train.test = -: only train.data can be standard input");
  {
    const StandardInput input(run.Path("train.ft"));
    const int code = Train(&run, {"train.data=-", "train.test=", "train.epochs=2"});
    REQUIRE_MESSAGE(code == 0, run.last_errors());
  }
  CHECK(fs::exists(kept));
  CHECK(Contains(ReadFile(run.run_directory() + "/config.ini"), "data = " + kept));
  // It goes on with the file that it has, also if it is named as before.
  const StandardInput nothing("/dev/null");
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                           "train.epochs=3"}) == 0);
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                           "train.epochs=4", "--set", "train.data=-"}) == 0);
  const auto measured = Evaluate(&run, run.Path("train.ft"));
  CHECK(measured["p_at_1"] == 1.0);
  Write(run.Path("blank.ft"), "\n" + text + "\n \n");  // training skips such lines too
  CHECK(Evaluate(&run, run.Path("blank.ft"))["samples"] == 400);
  fs::remove(kept);
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                           "train.epochs=5", "--set", "train.data=-"}) == 2);
  refused("is gone, which holds the run's standard input");
}

TEST_CASE("a signal is not the end of training data from standard input") {
  TestRun run;
  const std::string pipe = run.Path("pipe"), kept = run.run_directory() + "/train.data.zst";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int writer = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(writer >= 0);
  const StandardInput input(pipe);
  const auto scheduler =
      run.Start("dslide-scheduler", {"--config", run.config(), "--run-dir", run.run_directory(),
                                     "--set", "train.data=-", "--set", "train.test="});
  const std::string text = "words __label__one\nother words __label__two\n";
  REQUIRE(write(writer, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  REQUIRE(WaitFor([&] { return Contains(scheduler->Errors(), "[stream.keep]"); }));
  // As Ctrl-C does: the program that writes ends as well.
  scheduler->Signal(SIGINT);
  close(writer);
  CHECK(scheduler->Wait() == 75);
  CHECK(Contains(scheduler->Errors(), "stopped by a signal before standard input ended"));
  CHECK_FALSE(fs::exists(kept));
}

TEST_CASE("a pipe by name is no training data") {
  TestRun run;
  const std::string pipe = run.Path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(Train(&run, {"train.data=" + pipe, "train.test="}) == 2);
  CHECK(Contains(run.last_errors(),
                 "train.data = " + pipe + " is read once, and a run that goes on "));
  CHECK(Train(&run, {"train.test=" + pipe}) == 2);
  CHECK(Contains(run.last_errors(),
                 "train.test = " + pipe + " is read once, and a run that goes on "));
}

TEST_CASE("a scheduler that is killed while it reads standard input is not started again") {
  TestRun run;
  const std::string pipe = run.Path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int writer = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(writer >= 0);
  const StandardInput input(pipe);
  const auto train = run.Train({"--set", "train.data=-", "--set", "train.test="});
  const std::string text = "words __label__one\nother words __label__two\n";
  REQUIRE(write(writer, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  const std::string log = run.run_directory() + "/logs/scheduler.log";
  REQUIRE(WaitFor([&] { return Contains(ReadFile(log), "[stream.keep]"); }));
  const std::vector<pid_t> children = Descendants(train->pid());
  REQUIRE(children.size() == 1);
  kill(children[0], SIGKILL);
  CHECK(train->Wait() == 1);
  close(writer);
  CHECK(train->Errors() ==
        "dslide train: the scheduler ended (signal 9) before the run began, and standard input is "
        "read once; give the command and the data again\n");
  CHECK_FALSE(Contains(train->Output(), "started again"));
}

TEST_CASE("labels of few training samples are left out of a model of text") {
  TestRun run;
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "words " + std::to_string(i % 4) + "\tlabel " + std::to_string(i % 4) +
            (i < 5 ? "\trare" : "") + (i == 7 ? "\tonce" : "") + "\n";
  }
  Write(run.Path("train.tsv"), text);
  const std::string data = "train.data=" + run.Path("train.tsv");
  CHECK(Train(&run, {data, "train.test=", "train.min_label_samples=1000"}) == 2);
  CHECK(Contains(run.last_errors(), "no label has 1000 samples or more (train.min_label_samples)"));
  CHECK(Train(&run, {data, "train.test=", "train.min_label_samples=0"}) == 2);
  REQUIRE(Train(&run, {data, "train.test=" + run.Path("train.tsv"), "train.min_label_samples=6"}) ==
          0);
  CHECK(Contains(run.last_output(), run.Path("train.tsv") +
                                        ": 2 labels of fewer than 6 samples left out, with 6 of "
                                        "406 label entries (train.min_label_samples)\n"));
  const auto measured = Evaluate(&run, run.Path("train.tsv"));
  CHECK(measured["labels"] == 4);
  CHECK(measured["samples"] == 400);
  CHECK(measured["unknown_labels"] == 6);
  CheckSameMeasures(run, measured);
  CHECK(measured["p_at_1"] == 1.0);
  // The run goes on with the same labels, and with no others.
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                           "train.epochs=9"}) == 0);
  CHECK(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                           "train.epochs=9", "--set", "train.min_label_samples=2"}) == 2);
  CHECK(Contains(run.last_errors(), "train.min_label_samples"));
}

TEST_CASE("labels of few training samples lose them in a model of numbers, and keep their ids") {
  TestRun run;
  std::ofstream(run.Path("train.svm")) << "250 3:1\n250,7 7:1\n";
  {
    std::ifstream in(run.Path("train.txt"));
    std::ofstream out(run.Path("train.svm"), std::ios::app);
    std::string line;
    std::getline(in, line);  // the header
    while (std::getline(in, line)) out << line << "\n";
  }
  std::ofstream(run.Path("test.svm")) << "250 3:1\n7 7:1\n260 8:1\n";
  REQUIRE(Train(&run, {"train.data=" + run.Path("train.svm"), "train.test=" + run.Path("train.svm"),
                       "train.min_label_samples=3", "cluster.wire=fp32"}) == 0);
  CHECK(Contains(run.last_output(), ": 1 label of fewer than 3 samples left out, with 2 of "));
  CheckSameMeasures(run, Evaluate(&run, run.Path("train.svm")));
  const auto measured = Evaluate(&run, run.Path("test.svm"));
  CHECK(measured["labels"] == 251);
  CHECK(measured["unknown_labels"] == 2);  // 250, and 260, which the model never had
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                             run.Path("test.svm"), "--top-k", "1"}) == 0);
  CHECK(run.last_output().starts_with("3:"));  // feature 3 means label 3 to all other samples
  fs::remove(run.Path("train.svm"));
  Evaluate(&run, run.Path("test.svm"));
  CHECK(Contains(run.last_errors(), "labels that training left out count as known: "));
}

}  // namespace
}  // namespace dslide::formats_test
