// dslide status: shows the state of a running cluster, its events, or what this user's
// opportunistic workers on this machine do.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/app/executable.h"
#include "common/base/process.h"
#include "scheduler/status/progress.h"
#include "tools/dslide/cluster/lent_text.h"
#include "tools/dslide/cluster/observer.h"
#include "tools/dslide/cluster/run_access.h"
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
      if (status.error().kind != ErrorKind::kFailed) return status.error();
      fmt::print("{}\n", status.error().message);  // the run has ended
      return {};
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

Status ShowCluster(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = RunAccess(arguments, "observer", true);
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

// The events in a status, or of an older scheduler decisions, the oldest
// first. `all`: decisions about leases and shares, too.
std::vector<nlohmann::json> EventsOf(const nlohmann::json& status, bool all) {
  std::vector<nlohmann::json> events;
  const bool has_events = status.contains("events");
  const auto take = [&](const char* list, bool tuning_only) {
    const auto found = status.find(list);
    if (found == status.end() || !found->is_array()) return;
    for (const auto& event : *found) {
      if (!event.is_object() || (tuning_only && !event.value("tuning", false))) continue;
      events.push_back(event);
    }
  };
  take(has_events ? "events" : "decisions", false);
  if (has_events && all) take("decisions", true);
  std::ranges::stable_sort(events, {}, [](const auto& e) { return e.value("at_s", 0.0); });
  return events;
}

Status ShowEvents(const ParsedArguments& arguments) {
  const Result<SchedulerAccess> scheduler = RunAccess(arguments, "observer", true);
  DSLIDE_RETURN_IF_ERROR(scheduler);
  Result<Observer> observer = Observer::Join(*scheduler, "dslide-events");
  DSLIDE_RETURN_IF_ERROR(observer);
  std::set<std::string> shown;
  const auto show_new = [&](const nlohmann::json& status) {
    for (const auto& event : EventsOf(status, arguments.Has("all"))) {
      const double at_s = event.value("at_s", 0.0);
      const std::string text = event.value("text", "");
      if (!shown.insert(fmt::format("{} {}", at_s, text)).second) continue;
      if (arguments.Has("json")) {
        fmt::print("{}\n", event.dump());
      } else {
        fmt::print("{:>8}  {}\n", FormatDuration(at_s), text);
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

// Refuses options that cannot go together.
Status CheckStatusOptions(const ParsedArguments& arguments) {
  const auto both = [&](const char* one, const char* other) {
    return arguments.Has(one) && arguments.Has(other);
  };
  if (arguments.Has("all") && !arguments.Has("events") && !arguments.Has("follow")) {
    return BadInput("--all: goes with --events or --follow");
  }
  if (arguments.Has("workers") && !arguments.Positional().empty()) {
    return BadInput("--workers: shows the workers of this machine; leave RUN out");
  }
  constexpr std::pair<const char*, const char*> kApart[] = {
      {"watch", "events"},   {"watch", "follow"}, {"workers", "watch"},    {"workers", "events"},
      {"workers", "follow"}, {"workers", "key"},  {"workers", "scheduler"}};
  for (const auto& [one, other] : kApart) {
    if (!both(one, other)) continue;
    return BadInput(fmt::format("--{} does not go with --{}; leave one out", one, other));
  }
  return {};
}

Status ShowStatus(const ParsedArguments& arguments) {
  DSLIDE_RETURN_IF_ERROR(CheckStatusOptions(arguments));
  if (arguments.Has("workers")) return ShowWorkers(arguments);
  if (arguments.Has("events") || arguments.Has("follow")) return ShowEvents(arguments);
  return ShowCluster(arguments);
}

// Runs dslide status with `option` before the other arguments.
int StatusWith(const char* option, int argc, char** argv) {
  std::string word = option;
  std::vector<char*> words(argv, argv + argc);
  words.insert(words.begin() + 1, word.data());
  words.push_back(nullptr);
  return StatusCommand(argc + 1, words.data());
}

}  // namespace

int StatusCommand(int argc, char** argv) {
  CommandLine line(
      "dslide status RUN | --scheduler ADDRESS | --workers [options]",
      "Shows a running cluster: its servers with their load and memory, its workers, and its last "
      "events. With --events the last events alone, the oldest first, with the time since the "
      "scheduler started: members that joined, left, were lost or excluded, slot maps, "
      "checkpoints, "
      "rollbacks, epochs and results.");
  DeclareRunOptions(&line, true);
  line.Flag("watch", "show it again every two seconds, until the run ends");
  line.Flag("events", "print the last events");
  line.Flag("follow", "print events as they come, until the run ends");
  line.Flag("all", "with --events: decisions about leases and shares of the load, too");
  line.Flag("workers", "show the opportunistic workers of this user on this machine");
  line.Flag("json", "print JSON: that of /api/status, or an object an event");
  return RunExecutable("dslide status", line, argc, argv, ShowStatus);
}

int OldEventsCommand(int argc, char** argv) {
  const auto run = [](int count, char** words) { return StatusWith("--events", count, words); };
  return RunOldName("dslide events", "dslide status --events", run, argc, argv);
}

int OldWorkerCommand(int argc, char** argv) {
  const auto run = [](int count, char** words) {
    const bool status = count > 1 && std::string_view(words[1]) == "status";
    return StatusWith("--workers", count - (status ? 1 : 0), words + (status ? 1 : 0));
  };
  return RunOldName("dslide worker status", "dslide status --workers", run, argc, argv);
}

}  // namespace dslide
