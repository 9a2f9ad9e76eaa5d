// Streams (train.open_vocabulary): labels and words that come while a launched cluster trains.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <httplib.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/process.h"
#include "common/base/random.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "tests/cluster/cluster.h"
#include "tests/support/results.h"

namespace dslide::stream_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Standard input of the processes that start while it lives; what is written comes to them.
class Producer {
 public:
  Producer() : before_(dup(STDIN_FILENO)) {
    REQUIRE(pipe(ends_) == 0);
    REQUIRE(dup2(ends_[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends_[0]);
    REQUIRE(fcntl(ends_[1], F_SETFD, FD_CLOEXEC) == 0);
    (void)fcntl(before_, F_SETFD, FD_CLOEXEC);
  }
  ~Producer() {
    End();
    dup2(before_, STDIN_FILENO);
    close(before_);
  }
  void Write(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const ssize_t written = write(ends_[1], text.data() + at, text.size() - at);
      REQUIRE(written > 0);
      at += static_cast<size_t>(written);
    }
  }
  void End() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int before_;
  int ends_[2];
};

// Samples of labels [first, first + count): the word of the label among others.
std::string Lines(uint64_t samples, uint64_t first, uint64_t count, uint64_t seed) {
  Random random(seed);
  std::string lines;
  for (uint64_t i = 0; i < samples; ++i) {
    const std::string name = std::to_string(first + random.Below(count));
    lines += R"({"text": "about thing)" + name + " and noise" + std::to_string(random.Below(50)) +
             R"( here", "labels": ["label)" + name + "\"]}\n";
  }
  return lines;
}

// What makes a run of a stream.
Arguments Settings(const std::string& data) {
  Arguments arguments;
  for (const std::string& set :
       {std::string("train.data=" + data), std::string("train.open_vocabulary=true"),
        std::string("train.segment_samples=512"), std::string("train.segment_s=1"),
        std::string("train.batch=32"), std::string("model.hidden=32"),
        std::string("cluster.executors=1"), std::string("cluster.heartbeat_ms=200"),
        std::string("checkpoint.interval_s=1"),
        std::string("cluster.scheduler_bind=tcp://127.0.0.1:*")}) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  return arguments;
}

Arguments Train(const TestRun& run, const std::string& data, const Arguments& more = {}) {
  const Arguments train = {"train",     "--run-dir", run.run_directory(), "--servers", "2",
                           "--workers", "2"};
  return With(With(train, Settings(data)), more);
}

// How many samples count, each once and none missing.
uint64_t Counted(TestRun* run) {
  REQUIRE_MESSAGE(run->Run("dslide", {"ledger", "verify", run->run_directory(), "--json"}) == 0,
                  run->last_errors());
  const Json counts = Json::parse(run->last_output());
  CHECK(counts["duplicated"] == 0);
  CHECK(counts["missing"] == 0);
  return counts["seen"];
}

std::string BestLabel(TestRun* run, const std::string& text) {
  std::ofstream(run->Path("ask.jsonl")) << R"({"text": ")" << text << "\"}\n";
  REQUIRE(run->Run("dslide", {"predict", "--checkpoint", run->run_directory(), "--data",
                              run->Path("ask.jsonl"), "--top-k", "1", "--json"}) == 0);
  return Json::parse(run->last_output())["labels"][0];
}

// Segments that are done.
uint64_t Segments(const TestRun& run) {
  const std::string log = ReadFile(run.run_directory() + "/logs/scheduler.log");
  const std::string before = "segment ", behind = " done\n";
  const size_t end = log.rfind(behind);
  if (end == std::string::npos) return 0;
  return std::stoull(log.substr(log.rfind(before, end) + before.size()));
}

void Append(const std::string& path, const std::string& lines) {
  std::ofstream(path, std::ios::app) << lines;
}

// What lies in a directory.
std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

TEST_CASE("a stream's new labels and words are learned, and every line counts once") {
  TestRun run;
  Producer producer;
  auto train = run.Start("dslide", Train(run, "-"));
  producer.Write(Lines(3000, 0, 20, 1));
  REQUIRE(WaitFor([&] { return Segments(run) >= 3; }));
  producer.Write(Lines(3000, 10, 40, 2));  // 30 labels that nobody has seen
  producer.End();
  REQUIRE(train->Wait() == 0);
  CHECK(Counted(&run) == 6000);
  CHECK(BestLabel(&run, "about thing45 here") == "label45");
  CHECK(BestLabel(&run, "about thing3 here") == "label3");
}

TEST_CASE("a stream is trained exactly once whoever is killed") {
  TestRun run;
  Producer producer;
  auto train = run.Start("dslide", Train(run, "-"), kSlowly);
  uint64_t lines = 0;
  const auto write = [&](uint64_t first) { producer.Write(Lines(1500, first, 20, ++lines)); };
  write(0);
  REQUIRE(WaitFor([&] { return Segments(run) >= 2; }));
  // The launcher's children, in the order of their start: scheduler, servers, workers.
  for (const size_t victim : {0, 1, 3, 0, 2}) {
    std::vector<pid_t> children = Descendants(train->pid());
    REQUIRE(children.size() == 5);
    std::ranges::sort(children);
    const uint64_t before = Segments(run);
    write(5 * victim);
    kill(children[victim], SIGKILL);
    REQUIRE(WaitFor([&] { return IsGone(children[victim]); }));
    REQUIRE(WaitFor([&] { return Segments(run) > before + 1; }));
    REQUIRE(WaitFor([&] { return Descendants(train->pid()).size() == 5; }));
  }
  producer.End();
  REQUIRE(train->Wait() == 0);
  CHECK(Counted(&run) == 1500 * lines);
}

TEST_CASE("a file that grows is followed until a signal comes, and goes on in another launch") {
  TestRun run;
  const std::string file = run.Path("grows.jsonl");
  const Arguments status = {"--set", "cluster.status_bind=" + Loopback(run.status_port())};
  uint64_t lines = 0;
  const auto append = [&](uint64_t first) {
    Append(file, Lines(700, first, 20, ++lines));
    REQUIRE(WaitFor([&] { return run.TrainedSamples() == 700.0 * static_cast<double>(lines); }));
  };
  Append(file, "");
  {
    auto train = run.Start("dslide", Train(run, file, status));
    for (const uint64_t first : {0, 10, 30}) append(first);
    train->Signal(SIGTERM);
    REQUIRE(train->Wait() == 0);
    CHECK(Contains(train->Output(), "the stream ends here: training what has come"));
  }
  Append(file, Lines(700, 50, 20, ++lines));
  auto train = run.Start("dslide", {"train", "--resume", "--run-dir", run.run_directory()});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() == 700.0 * static_cast<double>(lines); }));
  append(60);
  train->Signal(SIGTERM);
  REQUIRE(train->Wait() == 0);
  CHECK(Contains(train->Output(), "; reading goes on with line 2101 (after byte "));
  CHECK(Counted(&run) == 700 * lines);
  CHECK(BestLabel(&run, "about thing75 here") == "label75");
}

// Until bytes of the stream have come.
void AwaitInput(const TestRun& run) {
  const std::string spool = run.run_directory() + "/stream";
  REQUIRE(WaitFor([&] {
    return fs::exists(spool) && std::ranges::any_of(Names(spool), [&](const std::string& name) {
             return name.starts_with("input-") && fs::file_size(spool + "/" + name) > 0;
           });
  }));
}

TEST_CASE("signals count while a stream waits for its first segment") {
  TestRun run;
  Producer producer;
  const auto scheduler =
      run.Start("dslide-scheduler", With(With({"--run-dir", run.run_directory()}, Settings("-")),
                                         {"--set", "train.segment_s=1000"}));
  REQUIRE(WaitFor([&] { return Contains(scheduler->Errors(), "waiting for the beginning"); }));
  SUBCASE("no sample has come") {
    scheduler->Signal(SIGTERM);
    CHECK(scheduler->Wait() == 75);
    CHECK(Contains(scheduler->Errors(), "stopped before training began"));
  }
  SUBCASE("the first ends the stream with what has come, the second stops at once") {
    producer.Write(Lines(100, 0, 20, 1));
    AwaitInput(run);
    scheduler->Signal(SIGTERM);
    REQUIRE(WaitFor([&] { return !run.SchedulerAddress().empty(); }));
    CHECK(Contains(scheduler->Errors(), "[stream.end]"));
    const int64_t signalled_ms = MonotonicMillis();
    REQUIRE(WaitFor([&] { return MonotonicMillis() - signalled_ms > StopSignals::kSameMs; }));
    CHECK(scheduler->Running());
    scheduler->Signal(SIGTERM);
    CHECK(scheduler->Wait() == 75);
  }
}

TEST_CASE("the first signal to a launch whose stream has not begun trains what has come") {
  TestRun run;
  Producer producer;
  auto train = run.Start("dslide", Train(run, "-", {"--set", "train.segment_s=1000"}));
  producer.Write(Lines(100, 0, 20, 1));
  AwaitInput(run);
  train->Signal(SIGTERM);
  CHECK(train->Wait() == 0);
  CHECK(Counted(&run) == 100);
}

TEST_CASE("a server of predictions gets the labels that come to a stream's run") {
  TestRun run;
  Producer producer;
  auto train = run.Start("dslide", Train(run, "-"));
  producer.Write(Lines(3000, 0, 20, 1));
  const std::string checkpoints = run.run_directory() + "/checkpoint";
  REQUIRE(WaitFor([&] { return Segments(run) >= 5 && !CompleteCheckpoints(checkpoints).empty(); }));
  auto serve = run.Start("dslide", {"serve", "--model", run.run_directory(), "--bind",
                                    "tcp://127.0.0.1:*", "--reload", "1"});
  REQUIRE(WaitFor([&] { return Contains(serve->Output(), "/\n"); }));
  const std::string output = serve->Output();
  httplib::Client client("127.0.0.1", std::stoi(output.substr(output.rfind(':') + 1)));
  const auto best = [&](const std::string& thing) -> std::string {
    const auto answer = client.Post(
        "/predict", R"({"text": "about thing)" + thing + R"( here", "k": 1})", "application/json");
    REQUIRE(answer);
    const Json labels = Json::parse(answer->body)["predictions"][0]["labels"];
    return labels.empty() ? "" : labels[0]["label"];
  };
  CHECK(best("45") != "label45");
  for (uint64_t seed = 2; seed < 6; ++seed) producer.Write(Lines(1500, 40, 10, seed));
  REQUIRE(WaitFor([&] { return best("45") == "label45"; }));
  REQUIRE(WaitFor([&] { return best("3") == "label3"; }));
  producer.End();
  REQUIRE(train->Wait() == 0);
}

TEST_CASE("a stream is not cut by other settings or of another source than its run's") {
  TestRun run;
  const std::string file = run.Path("data.jsonl");
  Append(file, Lines(1200, 0, 20, 1));
  const Arguments status = {"--set", "cluster.status_bind=" + Loopback(run.status_port())};
  {
    auto train = run.Start("dslide", Train(run, file, status));
    REQUIRE(WaitFor([&] { return run.TrainedSamples() == 1200; }));
    train->Signal(SIGTERM);
    REQUIRE(train->Wait() == 0);
  }
  Append(file, Lines(2000, 0, 20, 2));
  const std::string stream = run.run_directory() + "/stream";
  const std::vector<std::string> before = Names(stream);
  Append(run.Path("other.jsonl"), Lines(9000, 0, 20, 3));
  const auto refused = [&](const std::string& set, const std::string& why) {
    CAPTURE(set);
    CHECK(run.Run("dslide",
                  {"train", "--resume", "--run-dir", run.run_directory(), "--set", set}) == 2);
    CHECK_MESSAGE(Contains(run.last_errors(), why), run.last_errors());
    CHECK(Names(stream) == before);
  };
  refused("train.segment_samples=100", "--resume: train.segment_samples is 100 but 512 in");
  refused("text.ngrams=2", "--resume: text.ngrams is 2 but 1 in");
  refused("train.data=" + run.Path("other.jsonl"),
          run.Path("other.jsonl") + ": it does not begin with what was read from " + file);
  {
    Producer producer;
    refused("train.data=-", "train.data = -: the stream of this run is the file " + file);
  }
  // The file under another name is the same stream.
  fs::rename(file, run.Path("moved.jsonl"));
  auto train = run.Start("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                                    "train.data=" + run.Path("moved.jsonl")});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() == 3200; }));
  train->Signal(SIGTERM);
  REQUIRE(train->Wait() == 0);
  CHECK(Counted(&run) == 3200);
}

TEST_CASE("between two segments of a stream a scheduler may be killed") {
  for (const Arguments& more :
       {Arguments{}, Arguments{"--set", "train.staleness=0"},
        Arguments{"--set", "checkpoint.interval_s=3600"},
        Arguments{"--set", "train.staleness=0", "--set", "checkpoint.interval_s=3600"}}) {
    CAPTURE(more.size());
    TestRun run;
    Producer producer;
    // Each life of the scheduler is killed behind its second segment.
    auto train = run.Start("dslide", Train(run, "-", more), "scheduler.after-epoch=kill@2");
    producer.Write(Lines(2500, 0, 20, 1));
    producer.End();
    REQUIRE(train->Wait() == 0);
    CHECK(Counted(&run) == 2500);
    CHECK(BestLabel(&run, "about thing3 here") == "label3");
  }
}

TEST_CASE("batches of a synchronous stream are audited where members have keys") {
  for (const char* audit : {"train.audit=-1", "train.audit=1"}) {
    CAPTURE(audit);
    TestRun run;
    Producer producer;
    auto train = run.Start("dslide", Train(run, "-",
                                           {"--set", "security.encryption=always", "--set",
                                            "train.staleness=0", "--set", audit}));
    producer.Write(Lines(1000, 0, 20, 1));
    // One worker could train all before there is another one to ask.
    REQUIRE(WaitFor([&] {
      const std::string events = ReadFile(run.run_directory() + "/metrics.jsonl");
      return Contains(events, "worker-1 joined") && Contains(events, "worker-2 joined");
    }));
    producer.Write(Lines(1000, 0, 20, 2));
    producer.End();
    REQUIRE(train->Wait() == 0);
    CHECK(Counted(&run) == 2000);
    const Config config = Ok(LoadConfig(run.run_directory() + "/config.ini", {}));
    CHECK(config.train.audit > 0.0f);
    if (config.train.audit < 1.0f) continue;  // by chance no batch may have been audited
    const Json audits = run.Summary()["audits"];
    CHECK(audits["done"] > 0);
    CHECK(audits["liars"] == 0);
    CHECK(audits["undecided"] == 0);
  }
}

TEST_CASE("a flood of labels and words takes no more than it may") {
  TestRun run;
  Producer producer;
  auto train = run.Start(
      "dslide",
      Train(run, "-", {"--set", "train.vocabulary_mb=1", "--set", "train.admit_count=1"}));
  producer.Write(Lines(500, 0, 20, 1));
  producer.Write(Lines(10'000, 1000, 1'000'000, 2));
  producer.Write(Lines(500, 0, 20, 3));
  producer.End();
  REQUIRE(train->Wait() == 0);
  CHECK(Counted(&run) == 11'000);
  CHECK(BestLabel(&run, "about thing3 here") == "label3");
  const std::string log = ReadFile(run.run_directory() + "/logs/scheduler.log");
  CHECK(Contains(log, "more names (train.vocabulary_mb)"));
  const std::string once =
      "the labels or words of the stream take all that they may (train.vocabulary_mb = 1,";
  CHECK(log.find(once) != std::string::npos);
  CHECK(log.find(once) == log.rfind(once));
}

TEST_CASE("a run of a file begins with the model of a stream's, but no stream with a model") {
  TestRun run;
  {
    Producer producer;
    auto train = run.Start("dslide", Train(run, "-"));
    producer.Write(Lines(4000, 0, 20, 1));
    producer.End();
    REQUIRE(train->Wait() == 0);
  }
  const std::string file = run.Path("data.jsonl");
  Append(file, Lines(3000, 10, 20, 2));
  const auto from = [&](const std::string& model, const Arguments& more) {
    return run.Run("dslide", With({"train", "--from", model, "--run-dir", run.Path("next"),
                                   "--servers", "1", "--workers", "1"},
                                  more));
  };
  const auto refused = [&](const std::string& model, const Arguments& more,
                           const std::string& why) {
    CHECK(from(model, more) == 2);
    CHECK_MESSAGE(Contains(run.last_errors(), why), run.last_errors());
    CHECK(!fs::exists(run.Path("next")));
  };
  refused(run.run_directory(), {}, "--from: train.data is not set");
  refused(run.run_directory(),
          {"--set", "train.data=" + file, "--set", "train.open_vocabulary=true"},
          "--from: a stream (train.open_vocabulary) begins with a model of its own");
  REQUIRE_MESSAGE(from(run.run_directory(), {"--set", "train.data=" + file}) == 0,
                  run.last_errors());
  CHECK_MESSAGE(Contains(run.last_output(), "that was the run of a stream"), run.last_output());
  const Config config = *ParseConfig(ReadFile(run.Path("next") + "/config.ini"), "config.ini");
  CHECK(!config.train.open_vocabulary);
  CHECK(config.train.epochs < 100);
  CHECK(config.train.decay == Decay::kLinear);
  REQUIRE(run.Run("dslide", {"ledger", "verify", run.Path("next")}) == 0);
  std::ofstream(run.Path("ask.jsonl")) << R"({"text": "about thing3 here"})"
                                       << "\n"
                                       << R"({"text": "about thing27 here"})"
                                       << "\n";
  REQUIRE(run.Run("dslide", {"predict", "--checkpoint", run.Path("next"), "--data",
                             run.Path("ask.jsonl"), "--top-k", "1"}) == 0);
  CHECK_MESSAGE(Contains(run.last_output(), "label3"), run.last_output());
  CHECK_MESSAGE(Contains(run.last_output(), "label27"), run.last_output());
  fs::rename(run.Path("next"), run.Path("ordinary"));
  refused(run.Path("ordinary"),
          {"--set", "train.data=" + file, "--set", "train.open_vocabulary=true"},
          "--from: a stream (train.open_vocabulary) begins with a model of its own");
}

}  // namespace
}  // namespace dslide::stream_test
