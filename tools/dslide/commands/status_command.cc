// dslide status: shows the state of a running cluster. dslide worker status: what this user's lent
// workers on this machine do.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "common/app/executable.h"
#include "common/base/process.h"
#include "tools/dslide/cluster/lent_text.h"
#include "tools/dslide/cluster/observer.h"
#include "tools/dslide/cluster/status_text.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"

namespace dslide {
namespace {

// Width of the terminal; 0 if standard output is not a terminal.
size_t TerminalColumns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

constexpr int64_t kWatchMs = 2000;

Result<nlohmann::json> ParsedStatus(Observer* observer) {
  const Result<std::string> text = observer->StatusJson();
  DSLIDE_RETURN_IF_ERROR(text);
  auto status = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (status.is_discarded()) return Failed("the scheduler's status is not JSON");
  return status;
}

// Calls `show` with the status every `kWatchMs`, until the run has ended or a signal came.
Status Follow(Observer* observer, const std::function<void(const nlohmann::json&)>& show) {
  StopSignals signals;
  while (true) {
    const Result<nlohmann::json> status = ParsedStatus(observer);
    if (!status.ok()) {
      fmt::print("{}\n", status.error().message);
      return status.error().kind == ErrorKind::kFailed ? Status() : status.error();
    }
    try {
      show(*status);
      if (std::fflush(stdout) != 0) return {};
    } catch (const std::system_error&) {
      return {};  // nobody reads any more
    }
    for (int64_t waited = 0; waited < kWatchMs; waited += 200) {
      if (signals.Take()) return {};
      if (const Status ended = observer->Wait(200); !ended.ok()) {
        fmt::print("{}\n", ended.error().message);
        return {};
      }
    }
  }
}

Status ShowStatus(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = SchedulerFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  Result<Observer> observer = Observer::Join(*scheduler, "dslide-status");
  DSLIDE_RETURN_IF_ERROR(observer);
  if (arguments.Has("watch")) {
    return Follow(&*observer, [&](const nlohmann::json& status) {
      // Home, and below the text nothing: the screen does not flicker as by erasing all of it.
      const bool terminal = isatty(STDOUT_FILENO) == 1;
      if (arguments.Has("json")) {
        fmt::print("{}\n", status.dump());
      } else if (terminal) {
        std::string text = StatusText(status, TerminalColumns());
        for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4) {
          text.replace(at, 1, "\033[K\n");
        }
        fmt::print("\033[H{}\033[J", text);
      } else {
        fmt::print("{}\n", StatusText(status, 0));
      }
    });
  }
  if (arguments.Has("json")) {
    const Result<std::string> text = observer->StatusJson();
    DSLIDE_RETURN_IF_ERROR(text);
    fmt::print("{}\n", *text);
    return {};
  }
  const Result<nlohmann::json> status = ParsedStatus(&*observer);
  DSLIDE_RETURN_IF_ERROR(status);
  fmt::print("{}", StatusText(*status, TerminalColumns()));
  return {};
}

// "12 s", "3 m 05 s", "2 h 07 m", "1 d 3 h".
std::string Ago(double seconds) {
  const auto s = static_cast<int64_t>(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} m {:02} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {:02} m", s / 3600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86400, s / 3600 % 24);
}

Status ShowEvents(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = SchedulerFromArguments(arguments);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  Result<Observer> observer = Observer::Join(*scheduler, "dslide-events");
  DSLIDE_RETURN_IF_ERROR(observer);
  std::set<std::string> shown;
  const auto show_new = [&](const nlohmann::json& status) {
    for (const auto& event : status.value("decisions", nlohmann::json::array())) {
      const double at_s = event.value("at_s", 0.0);
      const std::string text = event.value("text", "");
      if (!shown.insert(fmt::format("{} {}", at_s, text)).second) continue;
      if (arguments.Has("json")) {
        fmt::print("{}\n", event.dump());
      } else {
        fmt::print("{:>10}  {}\n", Ago(at_s), text);
      }
    }
  };
  if (arguments.Has("follow")) return Follow(&*observer, show_new);
  const Result<nlohmann::json> status = ParsedStatus(&*observer);
  DSLIDE_RETURN_IF_ERROR(status);
  show_new(*status);
  return {};
}

Status ShowWorkers(const ParsedArguments& arguments) {
  const int64_t now = time(nullptr);
  const Result<LentWorkers> lent = ReadLentWorkers(now);
  DSLIDE_RETURN_IF_ERROR(lent);
  fmt::print("{}", arguments.Has("json") ? LentJson(*lent) + "\n" : LentText(*lent, now));
  return {};
}

int WorkerStatusCommand(int argc, char** argv) {
  CommandLine line("dslide worker status [--json]",
                   "Shows the lent workers of this user on this machine: whether each runs or "
                   "pauses and why, what it has done and may use.");
  line.Flag("json", "print JSON");
  return RunExecutable("dslide worker status", line, argc, argv, ShowWorkers);
}

constexpr Command kWorkerCommands[] = {
    {"status", WorkerStatusCommand, "show this user's lent workers on this machine"},
};

}  // namespace

int WorkerCommand(int argc, char** argv) {
  return RunCommand("dslide worker", kWorkerCommands, argc, argv);
}

int StatusCommand(int argc, char** argv) {
  CommandLine line("dslide status --scheduler ADDRESS [--watch] [--json]",
                   "Shows a running cluster: its servers with their load and memory, its workers, "
                   "and the last decisions of the scheduler.");
  DeclareSchedulerOptions(&line);
  line.Flag("watch", "show it again every two seconds, until the run ends");
  line.Flag("json", "print JSON, as /api/status of the status page");
  return RunExecutable("dslide status", line, argc, argv, ShowStatus);
}

int EventsCommand(int argc, char** argv) {
  CommandLine line(
      "dslide events --scheduler ADDRESS [--follow] [--json]",
      "Prints the last decisions of the scheduler of a running cluster, the oldest "
      "first, with the time since it started: who joined, left or was lost, what moved "
      "and why.");
  DeclareSchedulerOptions(&line);
  line.Flag("follow", "print what comes, until the run ends");
  line.Flag("json", "print a JSON object a line");
  return RunExecutable("dslide events", line, argc, argv, ShowEvents);
}

}  // namespace dslide
