// Lines of the log as programs read them: a process of its own writes them, because a log is
// global.
#include "common/log/log.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace dslide::log_test {
namespace {

constexpr EventKind kReady = {"server.ready", ""};
constexpr EventKind kSlow = {"server.slow", ""};

// What `write` says on standard error, with the environment variable DSLIDE_LOG.
template <typename Write>
std::string Logged(const char* format, Write write) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    if (format != nullptr) setenv("DSLIDE_LOG", format, 1);
    write();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char piece[512];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  return text;
}

TEST_CASE("log: lines of text name the process") {
  const std::string text = Logged(nullptr, [] {
    StartLog("server", "server-1", "info");
    LogInfo({kReady, "ready"});
    RenameLog("server-2");
    LogWarning({kSlow, "slow", {{"name", "s1"}, {"delay_s", 1.5}}});
  });
  CHECK(text.find(" info server-1 [server.ready] ready\n") != std::string::npos);
  CHECK(text.find(" warning server-2 [server.slow] slow\n") != std::string::npos);
}

TEST_CASE("log: lines of JSON name time, level, role, name and run") {
  const std::string text = Logged("json", [] {
    StartLog("server", "", "info");
    LogInfo({kReady, "a \"word\" and \xff"});
    RenameLog("server-2");
    NameRunInLog({0xabc});
    LogWarning({kSlow, "slow", {{"name", "s1"}, {"delay_s", 1.5}}});
  });
  const size_t end = text.find('\n');
  REQUIRE(end != std::string::npos);
  const auto first = nlohmann::json::parse(text.substr(0, end));
  CHECK(first["time"].get<std::string>().size() == std::string("2026-11-26T12:00:00.000Z").size());
  CHECK(first["level"] == "info");
  CHECK(first["role"] == "server");
  CHECK(first["name"] == "server");
  CHECK_FALSE(first.contains("run"));
  CHECK(first["code"] == "server.ready");
  CHECK_FALSE(first.contains("fields"));
  CHECK(first["message"].get<std::string>().starts_with("a \"word\" and "));
  const auto second = nlohmann::json::parse(text.substr(end + 1));
  CHECK(second["level"] == "warning");
  CHECK(second["name"] == "server-2");
  CHECK(second["run"] == "0000000000000abc");
  CHECK(second["code"] == "server.slow");
  CHECK(second["fields"] == nlohmann::json::parse(R"({"name": "s1", "delay_s": 1.5})"));
}

TEST_CASE("log: why a process ends is found again in its log, as text and as JSON") {
  for (const char* format : {"text", "json"}) {
    CAPTURE(format);
    std::string line = Logged(format, [] {
      StartLog("server", "server-1", "info");
      PrintFailure("dslide-server", "no \"memory\"");
    });
    REQUIRE(line.ends_with('\n'));
    line.pop_back();
    CHECK(FailureIn(line, "dslide-server") == "no \"memory\"");
    CHECK_FALSE(FailureIn(line, "dslide-worker"));
    if (line.starts_with('{')) CHECK(nlohmann::json::parse(line)["level"] == "error");
  }
  for (const char* other : {"", "{", "{}", "[1]", R"({"level":"info","message":"dslide: a"})",
                            R"({"level":30})", R"({"level":"error","message":1})"}) {
    CHECK_FALSE(FailureIn(other, "dslide"));
  }
}

TEST_CASE("log: another format than text and JSON is refused") {
  for (const char* format : {"", "text", "json", "JSON", "xml"}) {
    setenv("DSLIDE_LOG", format, 1);
    const std::string asked = format;
    CHECK(CheckLogFormat().ok() == (asked != "JSON" && asked != "xml"));
  }
  CHECK(CheckLogFormat().error().message ==
        "DSLIDE_LOG = xml: no format of logs; use json or text");
  unsetenv("DSLIDE_LOG");
}

}  // namespace
}  // namespace dslide::log_test
