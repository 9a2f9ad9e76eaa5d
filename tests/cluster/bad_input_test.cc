// A mistake of the user is named in one line, with exit code 2, and leaves nothing that looks
// complete.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/manifest.h"
#include "common/net/socket.h"
#include "tests/cluster/cluster.h"

namespace dslide::bad_input_test {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// The program ends with exit code 2 and one line on standard error that holds `names`.
void CheckOneLine(TestRun* run, const Arguments& arguments, const std::string& names) {
  CAPTURE(names);
  CHECK(run->Run("dslide", arguments) == 2);
  const std::string& errors = run->last_errors();
  CAPTURE(errors);
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
  CHECK(errors.find(names) != std::string::npos);
}

// The same, before anything was started.
void CheckRefused(TestRun* run, const Arguments& arguments, const std::string& names) {
  CheckOneLine(run, arguments, names);
  CHECK(run->last_output().empty());
  CHECK_FALSE(fs::exists(run->run_directory()));
}

TEST_CASE("dslide train refuses bad input in one line") {
  TestRun run;
  const auto refused = [&](const Arguments& more, const std::string& names) {
    Arguments arguments = {"train", "--config", run.config(), "--run-dir", run.run_directory()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CheckRefused(&run, arguments, names);
  };
  refused({"--set", "train.data=" + run.Path("absent.txt")}, run.Path("absent.txt"));
  refused({"--set", "train.test=" + run.Path("absent.txt")}, run.Path("absent.txt"));
  Write(run.Path("header.txt"), "many samples\n1 2:3\n");
  refused({"--set", "train.data=" + run.Path("header.txt")},
          run.Path("header.txt") + ": 'many samples' begins no known format");
  Write(run.Path("cut.txt"), "2 300 200\n1 2:3\n");
  refused({"--set", "train.data=" + run.Path("cut.txt")}, run.Path("cut.txt"));
  Write(run.Path("huge.txt"), "2 300 200\n1 2:3\n1 5:1e10\n");
  CheckOneLine(&run,
               {"train", "--config", run.config(), "--run-dir", run.run_directory(), "--set",
                "train.data=" + run.Path("huge.txt")},
               run.Path("huge.txt") + ": sample 2: the value of feature 5 is 1e+10");
  for (const char* weight : {"-0.5", "\"2\"", "1e300", "true"}) {
    Write(run.Path("weights.jsonl"),
          "{\"text\": \"a\", \"labels\": [\"b\"], \"weight\": 3}\n"
          "{\"text\": \"a\", \"labels\": [\"b\"], \"weight\": " +
              std::string(weight) + "}\n");
    refused({"--set", "train.data=" + run.Path("weights.jsonl")},
            run.Path("weights.jsonl") + ":2: \"weight\" is '");
  }
  refused({"--set", "train.epoch=3"}, "train.epochs");
  refused({"--set", "train.epochs"}, "train.epochs");
  refused({"--set", "train.epochs=-1"}, "train.epochs");
  refused({"--servers", "none"}, "--servers");
  refused({"--resume"}, "checkpoint");
  refused({"--server", "2"}, "--server");

  NetContext context;
  const auto taken = RouterSocket::Bind(context, "tcp://127.0.0.1:*");
  REQUIRE(taken.ok());
  refused({"--set", "cluster.scheduler_bind=" + taken->address()}, taken->address());
  refused({"--set", "checkpoint.directory=/proc/none"}, "checkpoint.directory = /proc/none: ");
}

TEST_CASE("a command's old name works, and names the new one") {
  TestRun run;
  const auto is_now = [&](Arguments old_name, const std::string& name) {
    const std::string words = fmt::format("{}", fmt::join(old_name, " "));
    old_name.push_back("--help");
    CHECK(run.Run("dslide", old_name) == 0);
    CHECK(Contains(run.last_errors(),
                   fmt::format("dslide {}: is {} now; the old name works", words, name)));
    CHECK(Contains(run.last_output(), "usage: " + name.substr(0, name.find(" --"))));
  };
  is_now({"events"}, "dslide status --events");
  is_now({"worker", "status"}, "dslide status --workers");
  is_now({"drain"}, "dslide run drain");
  is_now({"checkpoint", "now"}, "dslide run checkpoint");
  is_now({"keygen"}, "dslide key draw");
  CHECK(run.Run("dslide", {"--help"}) == 0);
  CHECK_FALSE(Contains(run.last_output(), "keygen"));
}

TEST_CASE("status: options that do not go together") {
  TestRun run;
  CheckRefused(&run, {"status", run.run_directory(), "--all"}, "--all: goes with --events");
  CheckRefused(&run, {"status", run.run_directory(), "--watch", "--events"}, "leave one out");
  CheckRefused(&run, {"status", "--workers", "--follow"}, "leave one out");
  CheckRefused(&run, {"status", "--workers", run.run_directory()}, "leave RUN out");
}

TEST_CASE("a run directory in a directory that does not exist is mistyped, and not made") {
  TestRun run;
  const std::string absent = run.Path("rusn");
  for (const char* command : {"train", "tune"}) {
    CheckRefused(&run, {command, "--config", run.config(), "--run-dir", absent + "/a"},
                 "there is no directory " + absent);
  }
  for (const char* encryption : {"auto", "always"}) {
    CHECK(
        run.Run("dslide-scheduler", {"--config", run.config(), "--run-dir", absent + "/a", "--set",
                                     std::string("security.encryption=") + encryption}) == 2);
    CHECK(Contains(run.last_errors(), "there is no directory " + absent));
  }
  CheckRefused(&run, {"run", "start", absent + "/a", "--config", run.config()},
               "there is no directory " + absent);
  CHECK_FALSE(std::filesystem::exists(absent));
}

TEST_CASE("sizes that a file or the configuration claims are checked before memory is taken") {
  TestRun run;
  const auto refused = [&](const Arguments& more, const std::string& names) {
    Arguments arguments = {"train", "--config",   run.config(), "--run-dir", run.run_directory(),
                           "--set", "train.test="};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CheckRefused(&run, arguments, names);
  };
  const std::string big = run.Path("big.txt");
  Write(big, "4294967295 300 200\n1 2:3\n");
  refused({"--set", "train.data=" + big}, big + ":1: the header says 4294967295 samples");
  const std::string memory = "dslide train: too little memory: one of 256 slots needs ";
  Write(big, "1 300 4294967295\n4294967294 2:3\n");
  refused({"--set", "train.data=" + big, "--set", "model.hidden=8192"}, memory);
  Write(big, "1 4294967295 300\n1 2:3\n");
  refused({"--set", "train.data=" + big, "--set", "model.hidden=8192"}, memory);
  refused({"--set", "cluster.memory_mb=16777216"},
          "dslide train: cluster.memory_mb = 16777216: this");
}

TEST_CASE("a configuration that cannot be read is refused") {
  TestRun run;
  const auto refused = [&](const std::string& config, const std::string& names) {
    CheckRefused(&run, {"train", "--config", config, "--run-dir", run.run_directory()}, names);
  };
  refused(run.Path("absent.ini"), run.Path("absent.ini"));
  fs::create_directory(run.Path("directory.ini"));
  refused(run.Path("directory.ini"), run.Path("directory.ini"));
  Write(run.Path("typo.ini"), "[train]\nbatchs = 3\n");
  refused(run.Path("typo.ini"), run.Path("typo.ini") + ":2: unknown key train.batchs; did you");
  Write(run.Path("broken.ini"), "[train\nbatch = 3\n");
  refused(run.Path("broken.ini"), run.Path("broken.ini"));
}

TEST_CASE("status and drain want an address, and drain a name") {
  TestRun run;
  CheckRefused(&run, {"status"}, "--scheduler");
  CheckRefused(&run, {"status", "--scheduler", "here"}, "here: not a run directory or an address");
  CheckRefused(&run, {"status", "--scheduler", "tcp://127.0.0.1:70000"}, "127.0.0.1:70000");
  CheckRefused(&run, {"run", "drain", "--scheduler", "tcp://127.0.0.1:7700"}, "NAME");
  CheckRefused(&run, {"run", "drain", "a", "b", "--scheduler", "tcp://127.0.0.1:7700"}, "b");
  CheckRefused(&run, {"run", "drain", "a", "--scheduler", "here"},
               "here: not a run directory or an address");
}

TEST_CASE("checkpoint list says where there is none") {
  TestRun run;
  fs::create_directories(run.run_directory() + "/checkpoint");
  CHECK(run.Run("dslide", {"checkpoint", "list", run.run_directory()}) == 0);
  CHECK(run.last_output() == run.run_directory() + "/checkpoint: no complete checkpoint\n");
  CHECK(run.Run("dslide", {"checkpoint", "list", run.run_directory(), "--json"}) == 0);
  CHECK(run.last_output() == "[]\n");
}

TEST_CASE("a server wants to know where the scheduler is") {
  TestRun run;
  CHECK(run.Run("dslide-server", {"--set", "cluster.executors=1"}) == 2);
  CHECK(
      run.last_errors() ==
      "dslide-server: the scheduler's address is missing: give --scheduler ADDRESS, a join string, "
      "or --key FILE\n");
}

TEST_CASE("evaluate and predict refuse what does not fit") {
  TestRun run;
  const std::string output = run.Path("predictions.txt");
  CheckRefused(&run,
               {"predict", "--checkpoint", run.Path("absent"), "--data", run.Path("test.txt"),
                "--output", output},
               run.Path("absent"));
  CheckRefused(
      &run,
      {"predict", "--checkpoint", run.Path("test.txt"), "--data", run.Path("test.txt"), "--output",
       output},
      run.Path("test.txt") + ": is no model; give a run directory, a checkpoint, or a file");
  CheckRefused(&run, {"checkpoint", "list", run.Path("test.txt")},
               run.Path("test.txt") + ": is no directory; give a run");
  CHECK_FALSE(fs::exists(output));
  REQUIRE(run.Train()->Wait() == 0);
  Write(run.Path("wide.txt"), "1 301 200\n1 300:1\n");
  const Arguments model = {"--checkpoint",       run.run_directory(), "--data",
                           run.Path("wide.txt"), "--output",          output};
  for (const char* command : {"evaluate", "predict"}) {
    Arguments arguments = {command};
    arguments.insert(arguments.end(), model.begin(), model.end());
    CHECK(run.Run("dslide", arguments) == 2);
    CHECK(run.last_errors().find("301 features") != std::string::npos);
    CHECK_FALSE(fs::exists(output));
  }
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                           run.Path("test.txt"), "--search", "lsh"}) == 2);
  CHECK(run.last_errors().find("--search lsh") != std::string::npos);
  const auto evaluate_refused = [&](const Arguments& more, const std::string& names) {
    Arguments arguments = {"evaluate", "--checkpoint", run.run_directory(), "--data",
                           run.Path("test.txt")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CheckOneLine(&run, arguments, names);
    CHECK(run.last_output().empty());
  };
  for (const char* k : {"0", "10001", "five", "5,10", "-3"}) {
    evaluate_refused({"--at", k}, std::string("--at ") + k + ": must be 1 to 10000");
  }
  evaluate_refused({"--at", "1", "--at", "2", "--at", "3", "--at", "4", "--at", "6"},
                   "--at: given 5 times, at most 4");
  evaluate_refused({"--per-sample", run.Path("no/samples")}, run.Path("no/samples") + ": cannot");
  evaluate_refused({"--per-sample", run.run_directory()},
                   run.run_directory() + ": is a directory (expected a file)");
  evaluate_refused({"--output", output, "--per-sample", output}, "--per-sample " + output);
  evaluate_refused({"--output", "absent", "--per-sample", "./absent"}, "--per-sample ./absent");
  for (const char* option : {"--output", "--per-sample"}) {
    evaluate_refused({option, run.Path("./test.txt")},
                     run.Path("./test.txt") + ": is the input; name another file");
  }
  // Nor is what it reads besides.
  const std::string train = ReadFile(run.Path("train.txt"));
  fs::copy_file(run.Path("train.txt"), run.Path("moved.txt"));
  Write(run.Path("names.txt"), std::string(kLabels, '\n'));
  for (const char* option : {"--output", "--per-sample"}) {
    evaluate_refused({option, run.Path("train.txt")}, run.Path("train.txt") + ": is the input");
    evaluate_refused({option, run.Path("moved.txt"), "--train", run.Path("moved.txt")},
                     run.Path("moved.txt") + ": is the input");
    evaluate_refused({option, run.Path("names.txt"), "--label-names", run.Path("names.txt")},
                     run.Path("names.txt") + ": is the input");
  }
  CHECK(ReadFile(run.Path("train.txt")) == train);
  CHECK(ReadFile(run.Path("moved.txt")) == train);
  evaluate_refused({"--per-sample", run.Path("samples"), "--train", run.Path("absent.txt")},
                   run.Path("absent.txt"));
  CHECK_FALSE(fs::exists(output));
  CHECK_FALSE(fs::exists(run.Path("samples")));
  CHECK_FALSE(fs::exists(run.Path("samples.tmp")));
  CHECK(run.Run("dslide", {"predict", "--at", "20"}) == 2);
  // A file that turns out bad in its middle leaves no predictions either.
  Write(run.Path("cut.txt"), "3 300 200\n1 2:1\n1 2:\n");
  CHECK(run.Run("dslide", {"predict", "--checkpoint", run.run_directory(), "--data",
                           run.Path("cut.txt"), "--output", output}) == 2);
  CHECK(run.last_errors().find(run.Path("cut.txt") + ":3") != std::string::npos);
  CHECK(run.Run("dslide", {"evaluate", "--checkpoint", run.run_directory(), "--data",
                           run.Path("cut.txt"), "--per-sample", output}) == 2);
  CHECK(run.last_errors().find(run.Path("cut.txt") + ":3") != std::string::npos);
  CHECK_FALSE(fs::exists(output));
  CHECK_FALSE(fs::exists(output + ".tmp"));
  // A report is not written over what it reads.
  for (const char* name :
       {"config.ini", "metrics.jsonl", "loads.jsonl", "examples.jsonl", "summary.json"}) {
    const std::string file = run.run_directory() + "/" + name;
    const std::string text = ReadFile(file);
    CheckOneLine(&run, {"report", run.run_directory(), "--output", file}, file + ": is the input");
    CHECK(ReadFile(file) == text);
  }
  const fs::path checkpoint = *FindCheckpoint(run.run_directory() + "/checkpoint");
  CheckOneLine(&run, {"report", run.run_directory(), "--output", checkpoint / "manifest"},
               "manifest: is the input");
  // Nor is a finished run overwritten by another one.
  CHECK(run.Train()->Wait() == 2);
}

TEST_CASE("--resume refuses what is not the run that began") {
  TestRun run;
  const Arguments resume = {"train", "--resume", "--run-dir", run.run_directory()};
  const auto refused = [&](const Arguments& more, const std::string& names) {
    Arguments arguments = resume;
    arguments.insert(arguments.end(), more.begin(), more.end());
    CheckOneLine(&run, arguments, names);
  };
  refused({}, "--resume: " + run.run_directory() + " holds no run");
  CHECK(run.Run("dslide-scheduler", {"--resume", "--run-dir", run.run_directory()}) == 2);
  CHECK(run.last_errors().find(" holds no run (it has no config.ini)") != std::string::npos);
  REQUIRE(run.Train()->Wait() == 0);
  // As many samples, features and labels as before.
  WriteSamples(run.Path("other.txt"), kSamples, 3);
  const std::string remedy =
      "; name the same train.data, or begin a new run with this one's model: dslide train --from "
      "RUN --run-dir NEW --data FILE";
  const std::string other =
      run.Path("other.txt") + " has other samples than this run started with" + remedy;
  WriteSamples(run.Path("fewer.txt"), kSamples - 1, 3);
  refused({"--data", run.Path("fewer.txt"), "--set", "train.epochs=4"},
          fmt::format("--resume: the run has {} training samples, not {}{}", kSamples, kSamples - 1,
                      remedy));
  Write(run.Path("wide.txt"), "1 301 200\n1 300:1\n");
  refused(
      {"--data", run.Path("wide.txt"), "--test", run.Path("wide.txt"), "--set", "train.epochs=4"},
      remedy);
  refused({"--set", "train.data=" + run.Path("other.txt"), "--set", "train.epochs=4"}, other);
  fs::rename(run.run_directory() + "/ledger", run.Path("ledger"));  // the checkpoint tells as well
  refused({"--set", "train.data=" + run.Path("other.txt"), "--set", "train.epochs=4"}, other);
  fs::remove_all(run.run_directory() + "/ledger");
  fs::rename(run.Path("ledger"), run.run_directory() + "/ledger");
  fs::remove_all(run.run_directory() + "/checkpoint");
  refused({}, "is gone from " + run.run_directory() + "/checkpoint");
  CHECK_FALSE(fs::exists(run.run_directory() + "/checkpoint"));
}

TEST_CASE("a run directory that is in use stays as it is") {
  TestRun run;
  const auto train = run.Train({"--set", "train.epochs=1000"});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const std::string address = run.SchedulerAddress();
  const std::string config = ReadFile(run.run_directory() + "/config.ini");
  for (const Arguments& more : {Arguments{}, Arguments{"--resume"}}) {
    Arguments arguments = {"train",
                           "--config",
                           run.config(),
                           "--run-dir",
                           run.run_directory(),
                           "--set",
                           "cluster.status_bind="};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(run.Run("dslide", arguments) == 75);
    CHECK(run.last_errors() ==
          "dslide train: " + run.run_directory() + ": another dslide train works there\n");
    arguments[0] = "--resume";
    CHECK(run.Run("dslide-scheduler", arguments) == 75);
    CHECK(Contains(run.last_errors(), "ledger"));
    CHECK(run.SchedulerAddress() == address);
    CHECK(ReadFile(run.run_directory() + "/config.ini") == config);
  }
  train->Signal(SIGTERM);
  CHECK(train->Wait() == 85);
}

TEST_CASE("settings of a run that goes on are checked with its own") {
  TestRun run;
  REQUIRE(run.Train({"--set", "train.epochs=1", "--set", "train.staleness=0"})->Wait() == 0);
  // Only with train.staleness = 0, which is not the default.
  CHECK(run.Run("dslide", {"run", "start", run.run_directory(), "--set", "train.audit=0.1"}) == 0);
  CHECK(Contains(run.last_output(), "the run is finished, 1 epoch trained"));
}

TEST_CASE("an address that was named is kept, also where it is the default one") {
  TestRun run;
  const auto train = run.Train(
      {"--set", "train.epochs=1", "--set", "cluster.scheduler_bind=tcp://127.0.0.1:7700"});
  REQUIRE(train->Wait().has_value());  // another program may have the port
  const std::string config = ReadFile(run.run_directory() + "/config.ini");
  CHECK(Contains(config + train->Errors(), "127.0.0.1:7700"));
}

TEST_CASE("a scheduler without servers says what it waited for, and asks for another try") {
  TestRun run;
  CHECK(run.Run("dslide-scheduler",
                {"--config", run.config(), "--run-dir", run.run_directory(), "--set",
                 "cluster.join_timeout_s=1", "--set", "cluster.scheduler_bind=tcp://127.0.0.1:*",
                 "--set", "cluster.servers=2"}) == 75);
  CHECK(run.last_errors().find("have 0 of 2 servers") != std::string::npos);
}

}  // namespace
}  // namespace dslide::bad_input_test
