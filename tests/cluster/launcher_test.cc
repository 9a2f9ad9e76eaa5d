// dslide train keeps its processes running.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "tests/cluster/cluster.h"
#include "tools/dslide/cluster/restart_limit.h"

namespace dslide::launcher_test {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("launcher: a process that dies at once may come back five times in ten seconds") {
  RestartLimit limit;
  for (int64_t ms : {0, 10, 20, 30, 40}) CHECK(limit.WhyNot(5, ms) == "");
  CHECK(limit.WhyNot(5, 50) == "6 times within 10 s");
  CHECK(limit.WhyNot(1999, 9'999) == "6 times within 10 s");
  CHECK(limit.WhyNot(5, 10'000) == "");
  CHECK(limit.WhyNot(5, 10'005) == "6 times within 10 s");
}

TEST_CASE("launcher: a process that always dies soon comes back twenty times") {
  RestartLimit limit;
  for (int64_t i = 0; i < 20; ++i) CHECK(limit.WhyNot(30'000, i * 30'000) == "");
  CHECK(limit.WhyNot(30'000, 600'000) == "21 times, each within 60 s of its start");
}

TEST_CASE("launcher: a process that lived for a while may come back without end") {
  RestartLimit limit;
  for (int64_t i = 0; i < 1000; ++i) CHECK(limit.WhyNot(60'000, i * 60'000) == "");
  for (int64_t ms : {60'000'000, 60'000'010, 60'000'020, 60'000'030, 60'000'040}) {
    CHECK(limit.WhyNot(5, ms) == "");
  }
  CHECK(limit.WhyNot(5, 60'000'050) == "6 times within 10 s");
}

TEST_CASE("launcher: a process that cannot be kept running ends the launch in one line") {
  TestRun run;
  const auto train = run.Train({"--servers", "2"}, "worker.join=kill");
  REQUIRE(train->Wait() == 1);
  CHECK(Count(train->Output(), "worker-1 ended (signal 9), started again\n") == 5);
  const std::string errors = train->Errors();
  CAPTURE(errors);
  CHECK(Count(errors, "\n") == 1);
  CHECK(Contains(errors, "worker-1 ended (signal 9; 6 times within 10 s), see " +
                             run.run_directory() + "/logs/worker-1.log"));
  CHECK(Count(run.WorkerLog(1), "failpoint worker.join") == 6);
}

TEST_CASE("launcher: every process comes back after kill -9, and training ends") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=6",
                                "--set", "cluster.heartbeat_ms=100"},
                               kSlowly);
  const std::vector<std::string> names = {"scheduler", "server-1", "server-2", "worker-1",
                                          "worker-2"};
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  std::vector<pid_t> children = Descendants(train->pid());
  REQUIRE(children.size() == names.size());
  std::sort(children.begin(), children.end());
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    kill(children[i], SIGKILL);
    REQUIRE(WaitFor([&] {
      return Contains(train->Output(), names[i] + " ended (signal 9), started again\n");
    }));
  }
  REQUIRE(train->Wait() == 0);
  CHECK(run.Summary()["samples"] == 6 * kSamples);
  CHECK(run.Summary()["p_at_1"] > 0.9);
}

TEST_CASE("a wrong failpoint is refused by every executable") {
  TestRun run;
  const Arguments scheduler = {"--scheduler", Loopback(FreePort())};
  const Arguments directory = {"--run-dir", run.run_directory()};
  for (const auto& [program, arguments] : {std::pair{"dslide-scheduler", directory},
                                           {"dslide-server", scheduler},
                                           {"dslide-worker", scheduler}}) {
    const auto process = run.Start(program, arguments, "server.puhs=kill");
    CHECK(process->Wait() == 2);
    CHECK(process->Errors() ==
          std::string(program) +
              ": DSLIDE_FAILPOINTS: server.puhs=kill: no such point; did you mean server.push?\n");
  }
}

}  // namespace
}  // namespace dslide::launcher_test
