// A new run that begins with the model of an earlier one: it keeps what that has learned, learns
// labels that it lacked, and goes on like any other run.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/base/random.h"
#include "common/checkpoint/layout.h"
#include "common/config/config.h"
#include "tests/cluster/cluster.h"

namespace dslide::train_from_test {
namespace {

namespace fs = std::filesystem;

struct Labels {
  uint32_t begin, end;
};
constexpr Labels kOld{0, 200}, kNew{200, 230}, kAll{0, 230};

// Numbers: label i < 200 is feature i, label 200 + i feature 300 + i, and two features are noise.
void WriteNumbers(const std::string& path, int samples, Labels labels, uint64_t seed) {
  Random random(seed);
  std::ofstream file(path);
  const bool old = labels.end <= 200;
  file << samples << (old ? " 300 200\n" : " 330 230\n");
  for (int i = 0; i < samples; ++i) {
    const uint64_t label = labels.begin + random.Below(labels.end - labels.begin);
    const uint64_t noise = 200 + random.Below(99);
    if (label < 200) {
      file << label << " " << label << ":1 " << noise << ":0.5 " << noise + 1 << ":0.3\n";
    } else {
      file << label << " " << noise << ":0.5 " << noise + 1 << ":0.3 " << label + 100 << ":1\n";
    }
  }
}

// Text: each label is a colour and a thing, and the text names both among other words. Old labels
// are of the first three colours.
constexpr const char* kColours[] = {"red", "green", "blue", "yellow", "violet"};
constexpr const char* kThings[] = {"house", "boat", "tree", "book", "garden"};
constexpr Labels kOldColours{0, 3}, kNewColours{3, 5}, kAllColours{0, 5};

void WriteTexts(const std::string& path, int samples, Labels colours, uint64_t seed) {
  Random random(seed);
  std::ofstream file(path);
  for (int i = 0; i < samples; ++i) {
    const std::string colour = kColours[colours.begin + random.Below(colours.end - colours.begin)];
    const std::string thing = kThings[random.Below(5)];
    nlohmann::json line;
    line["text"] = "About a " + thing + "\nIt is " + colour + " and has number " +
                   std::to_string(random.Below(100)) + ".";
    line["labels"] = {colour + " " + thing};
    file << line.dump() << "\n";
  }
}

struct Task {
  explicit Task(bool is_text) : end(is_text ? ".jsonl" : ".txt") {
    const auto write = [&](const char* name, int samples, int which, uint64_t seed) {
      if (is_text) {
        const Labels colours[] = {kOldColours, kNewColours, kAllColours};
        WriteTexts(Data(name), samples, colours[which], seed);
      } else {
        const Labels labels[] = {kOld, kNew, kAll};
        WriteNumbers(Data(name), samples, labels[which], seed);
      }
    };
    write("old", 4000, 0, 1);
    write("all", 5000, 2, 2);
    write("test-old", 300, 0, 3);
    write("test-new", 300, 1, 4);
    write("test-all", 300, 2, 5);
  }

  std::string Data(const std::string& name) const { return run.Path(name + end); }

  // Trains the earlier run.
  void TrainOld(const Arguments& more = {}) {
    Arguments arguments = {"train",
                           "--config",
                           run.config(),
                           "--run-dir",
                           run.run_directory(),
                           "--set",
                           "train.data=" + Data("old"),
                           "--set",
                           "train.test=" + Data("test-old")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE_MESSAGE(run.Run("dslide", arguments) == 0, run.last_errors());
  }
  Arguments From(const std::string& directory, const std::string& data,
                 const Arguments& more = {}) const {
    Arguments arguments = {"train",
                           "--from",
                           run.run_directory(),
                           "--run-dir",
                           run.Path(directory),
                           "--set",
                           "train.data=" + Data(data),
                           "--set",
                           "train.test=",
                           "--set",
                           "train.epochs=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  double PrecisionAt1(const std::string& directory, const std::string& data) {
    REQUIRE_MESSAGE(run.Run("dslide", {"evaluate", "--checkpoint", run.Path(directory), "--data",
                                       Data(data), "--json"}) == 0,
                    run.last_errors());
    return nlohmann::json::parse(run.last_output())["p_at_1"];
  }
  nlohmann::json Summary(const std::string& directory) const {
    return nlohmann::json::parse(ReadFile(run.Path(directory) + "/summary.json"), nullptr, false);
  }

  TestRun run;
  std::string end;
};

TEST_CASE("a run from an earlier model of numbers keeps old labels and learns new ones") {
  Task task(false);
  task.TrainOld();
  const Arguments from = task.From("new", "all",
                                   {"--set", "train.test=" + task.Data("test-all"), "--set",
                                    "train.epochs=2", "--servers", "2"});
  REQUIRE_MESSAGE(task.run.Run("dslide", from) == 0, task.run.last_errors());
  CHECK(Contains(task.run.last_output(),
                 "from " + task.run.run_directory() +
                     ": 200 labels and 300 features; 30 labels and 30 features are new\n"));
  CHECK(task.Summary("new")["p_at_1"] > 0.95);
  CHECK(task.PrecisionAt1("new", "test-new") > 0.95);
  CHECK(task.PrecisionAt1("new", "test-all") > 0.95);
  CHECK(task.run.Run("dslide", {"checkpoint", "verify", task.run.Path("new")}) == 0);

  // Data with less than the model has: nothing is new, and little is forgotten.
  Arguments again = task.From("newer", "old", {"--set", "train.test=" + task.Data("test-old")});
  again[2] = task.run.Path("new");
  REQUIRE_MESSAGE(task.run.Run("dslide", again) == 0, task.run.last_errors());
  CHECK(Contains(task.run.last_output(),
                 ": 230 labels and 330 features; 0 labels and 0 features are new\n"));
  CHECK(task.PrecisionAt1("newer", "test-new") > 0.5);  // of which it had no samples
  CHECK(task.PrecisionAt1("newer", "test-all") > 0.9);
}

TEST_CASE("a run from an earlier model of text keeps old labels and learns new ones") {
  Task task(true);
  task.TrainOld();
  REQUIRE_MESSAGE(task.run.Run("dslide", task.From("new", "all")) == 0, task.run.last_errors());
  CHECK(Contains(task.run.last_output(), ": 15 labels and "));
  CHECK(Contains(task.run.last_output(), "; 10 labels and "));
  CHECK(task.PrecisionAt1("new", "test-old") > 0.95);
  CHECK(task.PrecisionAt1("new", "test-new") > 0.95);
  // The earlier run is as it was.
  CHECK(task.PrecisionAt1("run", "test-old") > 0.95);
  CHECK(task.PrecisionAt1("run", "test-new") == 0);
}

TEST_CASE("a run from an earlier model of hashes has its features, and learns new labels") {
  Task task(true);
  task.TrainOld({"--set", "text.hash_bits=14", "--set", "text.stem=english"});
  REQUIRE_MESSAGE(task.run.Run("dslide", task.From("new", "all")) == 0, task.run.last_errors());
  CHECK(Contains(task.run.last_output(),
                 ": 15 labels and 16,384 features; 10 labels and 0 features are new\n"));
  CHECK(task.PrecisionAt1("new", "test-old") > 0.95);
  CHECK(task.PrecisionAt1("new", "test-new") > 0.95);
  CHECK(task.run.Run("dslide", task.From("newer", "all", {"--set", "text.stem=german"})) == 2);
  CHECK(Contains(task.run.last_errors(), "--from: text.stem is german but english in "));
}

TEST_CASE("a run from an earlier model goes on after its launcher was killed") {
  Task task(true);
  task.TrainOld();
  const auto killed =
      task.run.Start("dslide", task.From("new", "all", {"--set", "train.epochs=3"}), kSlowly);
  REQUIRE(WaitFor([&] { return task.run.TrainedSamples() > 500; }));
  const std::vector<pid_t> children = Descendants(killed->pid());
  killed->Signal(SIGKILL);
  REQUIRE(killed->Wait() == -SIGKILL);
  REQUIRE(WaitFor([&] { return std::ranges::all_of(children, IsGone); }));
  REQUIRE_MESSAGE(
      task.run.Run("dslide", {"train", "--resume", "--run-dir", task.run.Path("new")}) == 0,
      task.run.last_errors());
  CHECK(task.PrecisionAt1("new", "test-all") > 0.95);
  CHECK(task.run.Run("dslide", {"ledger", "verify", task.run.Path("new")}) == 0);
}

TEST_CASE("a run from an earlier model begins again after a kill before its checkpoint was whole") {
  for (const bool has_checkpoints_elsewhere : {false, true}) {
    Task task(true);
    task.TrainOld();
    Arguments from = task.From("new", "all");
    const std::string checkpoints = has_checkpoints_elsewhere
                                        ? task.run.Path("elsewhere")
                                        : task.run.Path("new") + "/checkpoint";
    if (has_checkpoints_elsewhere) {
      from.insert(from.end(), {"--set", "checkpoint.directory=" + checkpoints});
    }
    const auto killed = task.run.Start("dslide", from, "server.mid-checkpoint=kill");
    REQUIRE(killed->Wait() == -SIGKILL);
    REQUIRE(fs::exists(task.run.Path("new") + "/config.ini"));
    fs::create_directories(checkpoints + "/" + CheckpointName(0) + "/shard-0-0");  // killed later
    CHECK(task.run.Run("dslide", {"train", "--resume", "--run-dir", task.run.Path("new")}) == 2);
    CHECK(Contains(task.run.last_errors(), "give the same dslide train --from again"));
    REQUIRE_MESSAGE(task.run.Run("dslide", from) == 0, task.run.last_errors());
    CHECK(task.PrecisionAt1(has_checkpoints_elsewhere ? "elsewhere" : "new", "test-all") > 0.95);
    CHECK_FALSE(fs::exists(task.run.Path("new") + "/train-from.unfinished"));
    for (const auto& entry : fs::directory_iterator(checkpoints)) {
      CHECK_FALSE(entry.path().filename().string().starts_with("store-grown"));
    }
    // What is whole is not begun again.
    CHECK(task.run.Run("dslide", from) == 2);
  }
}

TEST_CASE("synchronous training begins from an earlier model") {
  Task task(false);
  const Arguments synchronous = {"--set", "train.staleness=0", "--set", "train.batch=64"};
  Arguments old = {"train",
                   "--config",
                   task.run.config(),
                   "--run-dir",
                   task.run.run_directory(),
                   "--set",
                   "train.data=" + task.Data("old"),
                   "--set",
                   "train.test="};
  old.insert(old.end(), synchronous.begin(), synchronous.end());
  REQUIRE_MESSAGE(task.run.Run("dslide", old) == 0, task.run.last_errors());
  REQUIRE_MESSAGE(task.run.Run("dslide", task.From("new", "all")) == 0, task.run.last_errors());
  CHECK(task.PrecisionAt1("new", "test-all") > 0.95);
}

// The names have the bytes that end a value, a line or a comment, outer blanks, and no UTF-8.
TEST_CASE("paths of any bytes are trained on, resumed and begun from") {
  TestRun run;
  const std::string place = run.Path("a#b \" c/ d\t\\e\n[f]=;'g' /\"h\"#\xff\xfe");
  fs::create_directories(place);
  const std::string data = place + "/ train #1.txt ", test = place + "/\"test\"";
  WriteSamples(data, 1500, 1);
  WriteSamples(test, 200, 2);
  // A comment would cut the path to this file.
  WriteSamples(run.Path("a"), 30, 3);
  const std::string first = place + "/run #1", second = place + "/\t run 2 \n";
  const Arguments train = {"train",
                           "--config",
                           run.config(),
                           "--run-dir",
                           first,
                           "--set",
                           "train.data=" + data,
                           "--set",
                           "train.test=" + test,
                           "--set",
                           "checkpoint.hook=touch \"$(dirname \"$(dirname \"$1\")\")/hook#ed\"",
                           "--set",
                           "train.epochs=1"};
  REQUIRE_MESSAGE(run.Run("dslide", train) == 0, run.last_errors());
  CHECK(fs::exists(first + "/hook#ed"));
  const auto of = [](const std::string& directory) {
    const Result<Config> config = LoadConfig(directory + "/config.ini", {});
    REQUIRE_MESSAGE(config.ok(), config.error().message);
    return config->train;
  };
  CHECK(of(first).data == data);
  CHECK(of(first).test == test);
  REQUIRE_MESSAGE(
      run.Run("dslide", {"train", "--run-dir", first, "--resume", "--set", "train.epochs=2"}) == 0,
      run.last_errors());
  CHECK(of(first).epochs == 2);
  CHECK(of(first).data == data);
  REQUIRE_MESSAGE(run.Run("dslide", {"train", "--from", first, "--run-dir", second, "--set",
                                     "train.epochs=1"}) == 0,
                  run.last_errors());
  CHECK(of(second).data == data);
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", second, "--data", test}) == 0);
  CHECK(run.Run("dslide", {"ledger", "verify", second}) == 0);
  CHECK(run.Run("dslide", {"run", "list", place, "--json"}) == 0);
}

TEST_CASE("what a run cannot begin from is named in one line, and nothing is left") {
  Task numbers(false);
  Task text(true);
  numbers.TrainOld();
  const auto refused = [](Task* task, const Arguments& arguments, const std::string& names) {
    CAPTURE(names);
    CHECK(task->run.Run("dslide", arguments) == 2);
    const std::string errors = task->run.last_errors();
    CAPTURE(errors);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
    CHECK(Contains(errors, names));
    CHECK_FALSE(fs::exists(task->run.Path("new")));
  };
  const auto from = [&](const std::string& model, const Arguments& more = {}) {
    Arguments arguments = numbers.From("new", "all", more);
    arguments[2] = model;
    return arguments;
  };
  const std::string model = numbers.run.run_directory();
  refused(&numbers, from(numbers.run.Path("none")),
          "--from: " + numbers.run.Path("none") + ": no such directory");
  refused(&numbers, from(numbers.run.config()), "--from: " + numbers.run.config());
  refused(&numbers, from(model, {"--resume"}), "--resume");
  refused(&numbers, from(model, {"--set", "model.hidden=64"}),
          "--from: model.hidden is 64 but 32 in " + model);
  refused(&numbers, from(model, {"--set", "train.data=" + text.Data("all")}),
          text.Data("all") + " has text, but the model in " + model);
  refused(&numbers, from(model, {"--set", "train.data=" + numbers.Data("none")}),
          numbers.Data("none"));
  refused(&numbers, from(model, {"--servers", "none"}), "--servers");
  REQUIRE(mkfifo(numbers.run.Path("pipe").c_str(), 0600) == 0);
  refused(&numbers, from(model, {"--set", "train.data=" + numbers.run.Path("pipe")}),
          numbers.run.Path("pipe") + " is read once");
  refused(&numbers, from(model, {"--set", "checkpoint.directory=" + model + "/checkpoint"}),
          model + "/checkpoint holds checkpoints of an earlier run");
  refused(&numbers, from(model, {"--set", "checkpoint.directory=/proc/none"}),
          "checkpoint.directory = /proc/none");
  REQUIRE(numbers.run.Run("dslide", {"export", model, "--to", numbers.run.Path("model.dslide")}) ==
          0);
  refused(&numbers, from(numbers.run.Path("model.dslide")), "model.dslide is a model file");

  fs::create_directory(numbers.run.Path("full"));
  std::ofstream(numbers.run.Path("full") + "/file") << "x";
  CHECK(numbers.run.Run("dslide", numbers.From("full", "all")) == 2);
  CHECK(Contains(numbers.run.last_errors(), numbers.run.Path("full") + " is not empty"));
  CHECK(std::distance(fs::directory_iterator(numbers.run.Path("full")), {}) == 1);

  text.TrainOld();
  refused(&text, text.From("new", "all", {"--set", "train.data=" + numbers.Data("all")}),
          "was trained on text");
}

}  // namespace
}  // namespace dslide::train_from_test
