// A launched cluster trains, is evaluated, resumed, and outlives its workers.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/cluster/cluster.h"

namespace dslide::training_test {
namespace {

namespace fs = std::filesystem;

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

nlohmann::json Parse(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

// The lines of --per-sample --top-k 10 and the figures of the same evaluation agree.
void CheckSamples(const std::string& text, const nlohmann::json& figures) {
  REQUIRE(Lines(text) == kTestSamples);
  std::istringstream lines(text);
  double p_at_1 = 0, p_at_5 = 0, recall = 0, reciprocal_rank = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json sample = Parse(line);
    REQUIRE(sample["predicted"].size() == 10);
    REQUIRE(sample["scores"].size() == 10);
    p_at_1 += sample["p_at_1"].get<double>();
    p_at_5 += sample["p_at_5"].get<double>();
    recall += sample["recall"].get<double>();
    reciprocal_rank += sample["reciprocal_rank"].get<double>();
  }
  const auto near = [&](const char* key) {
    return doctest::Approx(figures[key].get<double>() * kTestSamples).epsilon(1e-9);
  };
  CHECK(p_at_1 == near("p_at_1"));
  CHECK(p_at_5 == near("p_at_5"));
  CHECK(recall == near("recall_at_10"));
  CHECK(reciprocal_rank == near("mrr_at_10"));
  // There are 200 labels, and all are ranked.
  CHECK(figures["recall_at_250"] == doctest::Approx(1.0));
  CHECK(figures["bands"]["tail"]["recall_at_250"] == doctest::Approx(1.0));
}

TEST_CASE("a run learns, counts its samples and leaves a complete run directory") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", "model.active=lsh"});
  REQUIRE(train->Wait() == 0);
  CHECK(train->Errors().empty());

  for (const char* name : {"config.ini", "metrics.jsonl", "summary.json", "checkpoint", "logs"}) {
    CAPTURE(name);
    CHECK(fs::exists(run.run_directory() + "/" + name));
  }
  const nlohmann::json summary = run.Summary();
  for (const char* key :
       {"p_at_1", "p_at_3", "p_at_5", "ndcg_at_5", "psp_at_1", "epochs", "samples", "train_seconds",
        "cpu_seconds", "samples_per_second", "bytes_sent_per_sample", "bytes_received_per_sample",
        "active_neurons_per_sample", "active_rows_per_batch", "active_set_recall_at_10",
        "parameters", "peak_rss_mb"}) {
    CAPTURE(key);
    CHECK(summary.contains(key));
  }
  CHECK(summary["epochs"] == 3);
  CHECK(summary["samples"] == 3 * kSamples);
  CHECK(summary["p_at_1"] > 0.9);

  // The same checkpoint without a cluster.
  const Arguments model = {"--checkpoint", run.run_directory(), "--data", run.Path("test.txt")};
  Arguments evaluate = {"evaluate", "--json"};
  evaluate.insert(evaluate.end(), model.begin(), model.end());
  REQUIRE(run.Run("dslide", evaluate) == 0);
  const nlohmann::json figures = Parse(run.last_output());
  CHECK(figures["samples"] == kTestSamples);
  CHECK(figures["p_at_1"].get<double>() ==
        doctest::Approx(summary["p_at_1"].get<double>()).epsilon(0.003));

  // More k, and a line a sample that adds up to the same figures.
  Arguments more = evaluate;
  more.insert(more.end(),
              {"--at", "250", "--top-k", "10", "--per-sample", run.Path("samples.jsonl")});
  REQUIRE(run.Run("dslide", more) == 0);
  CheckSamples(ReadFile(run.Path("samples.jsonl")), Parse(run.last_output()));

  evaluate.insert(evaluate.end(), {"--search", "lsh"});
  REQUIRE(run.Run("dslide", evaluate) == 0);
  CHECK(Parse(run.last_output())["p_at_1"] > 0.3);

  Arguments predict = {"predict", "--output", run.Path("predictions.txt")};
  predict.insert(predict.end(), model.begin(), model.end());
  REQUIRE(run.Run("dslide", predict) == 0);
  CHECK(Lines(ReadFile(run.Path("predictions.txt"))) == kTestSamples);
}

TEST_CASE("held-out samples are not trained, and measure the model after each epoch") {
  TestRun run;
  const Arguments held_out = {"--servers", "2", "--workers", "2", "--set", "train.heldout=200"};
  REQUIRE(run.Train(held_out)->Wait() == 0);
  const nlohmann::json summary = run.Summary();
  CHECK(summary["samples"] == 3 * (kSamples - 200));
  CHECK(summary["held_out"]["evaluated_samples"] == 200);
  CHECK(summary["held_out"]["p_at_1"] > 0.8);
  CHECK(summary["p_at_1"] > 0.8);
  std::vector<nlohmann::json> records;
  std::istringstream lines(ReadFile(run.run_directory() + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    if (Parse(line)["event"] == "held_out") records.push_back(Parse(line));
  }
  REQUIRE(records.size() == 3);
  CHECK(records[2]["epochs_trained"] == 3);
  REQUIRE(run.Run("dslide", {"ledger", "verify", run.run_directory(), "--json"}) == 0);
  const nlohmann::json counts = Parse(run.last_output());
  CHECK(counts["missing"] == 0);
  CHECK(counts["duplicated"] == 0);
  CHECK(counts["seen"] == 3 * (kSamples - 200));
  // Other held-out samples would be another run.
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                             "train.heldout=100", "--set", "train.epochs=4"}) == 2);
  CHECK(Contains(run.last_errors(), "train.heldout"));
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                             "train.epochs=4"}) == 0);
  CHECK(run.Summary()["samples"] == 4 * (kSamples - 200));
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory(), "--set",
                             "train.epochs=2", "--set", "train.test="}) == 0);
  CHECK(Contains(run.last_output(),
                 "train.epochs = 2: the run has trained 4 epochs, and trains no more"));
}

TEST_CASE("held-out samples of a file of their own, without a test file") {
  TestRun run;
  REQUIRE(run.Train({"--servers", "1", "--workers", "1", "--set", "train.test=", "--set",
                     "train.dev=" + run.Path("test.txt")})
              ->Wait() == 0);
  const nlohmann::json summary = run.Summary();
  CHECK(summary["samples"] == 3 * kSamples);
  CHECK_FALSE(summary.contains("p_at_1"));
  CHECK(summary["held_out"]["evaluated_samples"] == kTestSamples);
  CHECK(summary["held_out"]["p_at_1"] > 0.9);
  // The commands that show a finished run show the figure.
  const double p_at_1 = summary["held_out"]["p_at_1"];
  REQUIRE(run.Run("dslide", {"run", "list", run.run_directory(), "--json"}) == 0);
  CHECK(Parse(run.last_output())[0]["held_out_p_at_1"] == p_at_1);
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory()}) == 0);
  CHECK(Contains(run.last_output(), fmt::format("trained, held-out P@1 {:.2f};", 100 * p_at_1)));
  CHECK(run.Run("dslide", {"status", run.run_directory()}) == 2);
  CHECK(Contains(run.last_errors(), "--output report.html` shows"));
  TestRun both;
  const auto refused =
      both.Train({"--set", "train.dev=" + both.Path("test.txt"), "--set", "train.heldout=5"});
  CHECK(refused->Wait() == 2);
  CHECK(Contains(refused->Errors(),
                 "train.heldout = 5: the held-out samples are those of train.dev"));
}

TEST_CASE("a checkpoint of two servers continues on three") {
  TestRun run;
  // The data by a relative name, which --resume needs not be in the same directory for.
  const std::string data = fs::relative(run.Path("train.txt")).string();
  REQUIRE(run.Train({"--servers", "2", "--workers", "1", "--set", "train.data=" + data})->Wait() ==
          0);
  CHECK(Contains(ReadFile(run.run_directory() + "/config.ini"),
                 "\ndata = " + run.Path("train.txt") + "\n"));
  // For people epochs count from 1.
  REQUIRE(run.Run("dslide", {"checkpoint", "inspect", run.run_directory()}) == 0);
  CHECK(Contains(run.last_output(), "epoch       3, all of its batches done\n"));
  REQUIRE(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
  CHECK(Contains(run.last_output(), "\nepoch 1-3, each seen "));
  CHECK_FALSE(Contains(run.last_output(), "\nepoch 0 "));
  const double before = run.Summary()["p_at_1"];
  const auto resumed =
      run.Train({"--resume", "--servers", "3", "--workers", "2", "--set", "train.epochs=5"});
  REQUIRE(resumed->Wait() == 0);
  CHECK(Contains(resumed->Output(), "from checkpoint step-"));
  CHECK(Contains(resumed->Output(), "over 3 servers"));
  CHECK(run.Summary()["samples"] == 5 * kSamples);
  CHECK(run.Summary()["p_at_1"] >= before - 0.05);
}

TEST_CASE("the others finish when a worker is killed, and no sample is lost or counted twice") {
  TestRun run;
  const auto train =
      run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=4"}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples("worker-2") > 0; }));
  const auto children = Descendants(train->pid());
  REQUIRE(children.size() == 5);
  kill(*std::max_element(children.begin(), children.end()), SIGKILL);  // started last: worker-2
  REQUIRE(train->Wait() == 0);
  const std::string output = train->Output();
  CAPTURE(output);
  CHECK(Contains(output, "worker-2 ended (signal 9)"));
  CHECK(Contains(output, "leases returned"));
  CHECK(run.Summary()["samples"] == 4 * kSamples);
}

TEST_CASE("a worker that is started later takes part") {
  TestRun run;
  const auto train = run.Train({"--servers", "1", "--workers", "1", "--set", "train.epochs=10000"});
  REQUIRE(WaitFor([&] { return run.TrainedSamples("worker-1") > 0; }));
  const auto late =
      run.Start("dslide-worker", {"--scheduler", run.SchedulerAddress(), "--name", "late"});
  CHECK(WaitFor([&] { return run.TrainedSamples("late") > 0; }));
  CHECK(Contains(late->Errors(), "[scheduler.join] joined as late"));
  // The late worker leaves on request, and the run goes on.
  late->Signal(SIGTERM);
  CHECK(late->Wait() == 0);
  train->Signal(SIGTERM);
  CHECK(train->Wait() == 85);
}

TEST_CASE("processes may be started by hand in any order") {
  TestRun run;
  const std::string address = Loopback(FreePort());
  const auto worker_1 = run.Start("dslide-worker", {"--scheduler", address});
  const auto worker_2 = run.Start("dslide-worker", {"--scheduler", address});
  const Arguments server = {"--config", run.config(), "--scheduler", address};
  const auto server_1 = run.Start("dslide-server", server);
  const auto server_2 = run.Start("dslide-server", server);
  REQUIRE(WaitFor([&] {
    return Contains(server_2->Errors(), "[server.listen]") &&
           Contains(worker_2->Errors(), "[scheduler.dial]");
  }));
  const auto scheduler = run.Start(
      "dslide-scheduler", {"--config", run.config(), "--run-dir", run.run_directory(), "--set",
                           "cluster.servers=2", "--set", "cluster.scheduler_bind=" + address});
  REQUIRE(scheduler->Wait() == 0);
  for (const auto& member : {&worker_1, &worker_2, &server_1, &server_2}) {
    CHECK((*member)->Wait() == 0);
  }
  CHECK(run.Summary()["samples"] == 3 * kSamples);
  CHECK(run.Summary()["p_at_1"] > 0.9);
}

}  // namespace
}  // namespace dslide::training_test
