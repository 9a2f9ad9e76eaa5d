// Failpoints: what the environment may say, and what the actions do. Each case acts in a child
// process, for they end or stop it and stay set.
#include "common/base/failpoint.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/process.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::failpoint_test {
namespace {

constexpr int kLookMs = 1;
constexpr int kLooks = 60'000;

constexpr int kRefused = 99;

// Starts a process that arms `text` and exits with what `work` returns.
pid_t Fork(const std::string& text, const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGTERM, SIG_DFL);  // doctest has a handler
    _exit(ArmFailpoints(text).ok() ? work() : kRefused);
  }
  REQUIRE(pid > 0);
  return pid;
}

// The exit code, or minus the signal that ended it.
int Wait(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int Ending(const std::string& text, const std::function<int()>& work) {
  return Wait(Fork(text, work));
}

// How often `point` says that its caller is to fail, of ten passes.
int Failures(Failpoint point) {
  int failures = 0;
  for (int i = 0; i < 10; ++i) failures += PassFailpoint(point);
  return failures;
}

std::string Refusal(const std::string& text) { return MessageOf(ArmFailpoints(text)); }

TEST_CASE("failpoints: every name is found, and nothing happens at points that are not set") {
  for (size_t i = 0; i < kFailpoints.size(); ++i) {
    const std::string name(kFailpoints[i].name);
    CAPTURE(name);
    CHECK(Ending(name + "=kill", [&] { return PassFailpoint(Failpoint(i)) ? 1 : 0; }) == -SIGKILL);
    CHECK_FALSE(PassFailpoint(Failpoint(i)));
  }
}

TEST_CASE("failpoints: an action happens at the N-th pass, once") {
  const auto passes = [](int n) {
    return [n] {
      for (int i = 0; i < n; ++i) (void)PassFailpoint(Failpoint::kServerPush);
      return 0;
    };
  };
  CHECK(Ending("server.push=kill@3", passes(2)) == 0);
  CHECK(Ending("server.push=kill@3", passes(3)) == -SIGKILL);
  CHECK(Ending("server.push=term", passes(1)) == -SIGTERM);
  CHECK(Ending("server.embed=kill;server.push=term@2;server.query=kill", passes(2)) == -SIGTERM);
  CHECK(Ending("", passes(5)) == 0);
  CHECK(Ending("server.mid-checkpoint=fail@4",
               [] { return Failures(Failpoint::kServerMidCheckpoint); }) == 1);
  // Of threads that pass together, one acts.
  CHECK(Ending("server.mid-restore=fail@7", [] {
          std::atomic<int> failures = 0;
          std::vector<std::jthread> threads(4);
          for (auto& thread : threads) {
            thread = std::jthread([&] { failures += Failures(Failpoint::kServerMidRestore); });
          }
          threads.clear();
          return failures.load();
        }) == 1);
}

TEST_CASE("failpoints: stop stops the process until it is continued") {
  const pid_t pid = Fork("worker.push=stop", [] {
    (void)PassFailpoint(Failpoint::kWorkerPush);
    return 7;
  });
  int status = 0;
  REQUIRE(waitpid(pid, &status, WUNTRACED) == pid);
  REQUIRE(WIFSTOPPED(status));
  CHECK(WSTOPSIG(status) == SIGSTOP);
  kill(pid, SIGCONT);
  CHECK(Wait(pid) == 7);
}

TEST_CASE("failpoints: a pause lasts until its file is removed") {
  TempDirectory directory;
  const std::string path = directory.path() + "/an@odd name";
  const pid_t pid = Fork("worker.query=pause:" + path + "@2", [&] {
    (void)PassFailpoint(Failpoint::kWorkerQuery);
    if (access(path.c_str(), F_OK) == 0) return 1;
    (void)PassFailpoint(Failpoint::kWorkerQuery);
    return access(path.c_str(), F_OK) == 0 ? 2 : 0;
  });
  for (int i = 0; i < kLooks && access(path.c_str(), F_OK) != 0; ++i) poll(nullptr, 0, kLookMs);
  pid_t written = 0;
  std::ifstream(path) >> written;
  CHECK(written == pid);
  CHECK(waitpid(pid, nullptr, WNOHANG) == 0);
  unlink(path.c_str());
  CHECK(Wait(pid) == 0);
}

TEST_CASE("failpoints: a delay is at the N-th and at every later pass") {
  CHECK(Ending("worker.push=delay:20@3", [] {
          const auto passes = [](int n) {
            const int64_t began_ms = MonotonicMillis();
            for (int i = 0; i < n; ++i) (void)PassFailpoint(Failpoint::kWorkerPush);
            return MonotonicMillis() - began_ms;
          };
          (void)passes(2);
          return passes(1) >= 19 && passes(3) >= 59 ? 0 : 1;
        }) == 0);
}

TEST_CASE("failpoints: what makes no sense is refused in a line that names it") {
  CHECK(Refusal("server.puhs=kill") ==
        "DSLIDE_FAILPOINTS: server.puhs=kill: no such point; did you mean server.push?");
  CHECK(Refusal("elsewhere=kill") == "DSLIDE_FAILPOINTS: elsewhere=kill: no such point");
  CHECK(Refusal("server.push") == "DSLIDE_FAILPOINTS: server.push: expected NAME=ACTION[@N]");
  const std::string actions = ": the action must be kill, term, stop, fail, pause:PATH or delay:MS";
  for (const char* part : {"server.push=", "server.push=kil", "server.push=pause",
                           "server.push=pause:", "server.push=kill3", "server.push=delay:",
                           "server.push=delay:0", "server.push=delay:60001"}) {
    CHECK(Refusal(part) == "DSLIDE_FAILPOINTS: " + std::string(part) + actions);
  }
  for (const char* count : {"", "0", "-1", "x", "1x", "4294967296"}) {
    const std::string part = std::string("server.push=kill@") + count;
    CHECK(Refusal(part) == "DSLIDE_FAILPOINTS: " + part +
                               ": what follows '@' must be a number from 1 to 4294967295");
  }
  CHECK(Refusal("server.push=fail").find("this point has no disk to fail") != std::string::npos);
  CHECK(Refusal(";server.push=kill").find("(empty): expected NAME=ACTION") != std::string::npos);
  CHECK(Ending("server.push=kill;server.push=stop", [] { return 0; }) == kRefused);
}

}  // namespace
}  // namespace dslide::failpoint_test
