// dslide run COMMAND: many runs on one set of machines.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/app/executable.h"
#include "common/app/run_directory.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/checkpoint/disk_use.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "common/log/log.h"
#include "common/security/run_place.h"
#include "common/security/small_file.h"
#include "tools/dslide/checkpoint/checkpoint_commands.h"
#include "tools/dslide/cluster/child_process.h"
#include "tools/dslide/commands/command_table.h"
#include "tools/dslide/commands/commands.h"
#include "tools/dslide/report/size_text.h"
#include "tools/dslide/runs/found_run.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kLookMs = 100;
constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

nlohmann::ordered_json JsonOf(const FoundRun& run) {
  nlohmann::ordered_json json = {{"name", run.name},
                                 {"directory", run.directory},
                                 {"state", NameOf(run.kind)},
                                 {"bytes", run.bytes}};
  if (run.holder.pid > 0) json["pid"] = run.holder.pid;
  if (run.progress) json["progress"] = *run.progress;
  if (run.p_at_1) json["p_at_1"] = *run.p_at_1;
  if (run.held_out) json["held_out_p_at_1"] = *run.held_out;
  if (!run.outcome.empty()) json["outcome"] = run.outcome;
  return json;
}

std::string LineOf(const FoundRun& run, size_t width) {
  const std::string done = run.progress ? fmt::format("{:.0f} %", 100 * *run.progress) : "-";
  const auto percent = [](std::optional<double> share) {
    return share ? fmt::format("{:.2f}", 100 * *share) : "-";
  };
  std::string line =
      fmt::format("{:<{}}  {:<9}  {:>5}  {:>6}  {:>8}  {:>12}", run.name, width, NameOf(run.kind),
                  done, percent(run.p_at_1), percent(run.held_out), SizeText(run.bytes));
  if (run.holder.pid > 0) line += fmt::format("  pid {}", run.holder.pid);
  if (run.holder.held && run.holder.pid == 0) line += "  held by another process or machine";
  if (!run.outcome.empty()) line += "  " + run.outcome;
  return line;
}

Status List(const ParsedArguments& arguments) {
  const auto runs = RunsIn(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(runs);
  if (arguments.Has("json")) {
    auto list = nlohmann::ordered_json::array();
    for (const FoundRun& run : *runs) list.push_back(JsonOf(run));
    fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  size_t width = 3;
  for (const FoundRun& run : *runs) width = std::max(width, run.name.size());
  if (!runs->empty()) {
    fmt::print("{:<{}}  {:<9}  {:>5}  {:>6}  {:>8}  {:>12}\n", "run", width, "state", "done", "P@1",
               "held-out", "size");
  }
  for (const FoundRun& run : *runs) fmt::print("{}\n", LineOf(run, width));
  if (runs->empty()) fmt::print("{}: no runs\n", arguments.Positional()[0]);
  return {};
}

int ListCommand(int argc, char** argv) {
  CommandLine line("dslide run list DIRECTORY [--json]",
                   "Lists the runs in a directory of run directories: state, share of the epochs, "
                   "P@1 on test and on held-out samples, and size of each.");
  line.Positional("DIRECTORY", "directory that has run directories in it, or one of them", 1, 1);
  line.Flag("json", "print JSON");
  return RunExecutable("dslide run list", line, argc, argv, List);
}

Status Stop(const ParsedArguments& arguments) {
  const std::string directory = arguments.Positional()[0];
  const Result<uint32_t> wait_s = arguments.Number("wait", 0, 86400);
  DSLIDE_RETURN_IF_ERROR(wait_s);
  const auto run = FindRun(directory);
  if (!run) {
    return BadInput(fmt::format("{}: holds no run (it has no config.ini)", directory));
  }
  if (!run->holder.held) {
    fmt::print("{}: does not run ({})\n", directory, NameOf(run->kind));
    return {};
  }
  if (run->holder.pid == 0) {
    return Failed(fmt::format(
        "{}: its scheduler is on another machine or in another container; send it SIGTERM there",
        directory));
  }
  // Again: it may have ended, and another begun, while its files were read.
  const pid_t pid = HolderOf(directory).pid;
  if (pid > 0 && kill(pid, SIGTERM) != 0 && errno != ESRCH) {
    return Failed(fmt::format("{}: process {}: {}", directory, pid, std::strerror(errno)));
  }
  const int64_t end_ms = MonotonicMillis() + int64_t{1000} * *wait_s;
  // Another process that has begun meanwhile was not asked to stop.
  for (RunHolder now = HolderOf(directory); pid > 0 && now.held && now.pid == pid;
       now = HolderOf(directory)) {
    if (MonotonicMillis() >= end_ms) {
      return TryLater(fmt::format("{}: asked to stop, and still writes its checkpoint after {} s",
                                  directory, *wait_s));
    }
    poll(nullptr, 0, kLookMs);
  }
  const auto after = FindRun(directory);
  if (after && after->holder.held) {
    return TryLater(fmt::format(
        "{}: runs again{}", directory,
        after->holder.pid > 0 ? fmt::format(", pid {}", after->holder.pid) : std::string()));
  }
  if (after && after->kind == FoundRun::Kind::kEnded) {
    return Failed(fmt::format(
        "{}: its scheduler ended before the last checkpoint was written; --resume goes on from the "
        "one before",
        directory));
  }
  std::string how = "stopped";  // also if the directory has gone
  if (after) how = after->outcome.empty() ? NameOf(after->kind) : after->outcome;
  fmt::print("{}: {}\n", directory, how);
  return {};
}

int StopCommand(int argc, char** argv) {
  CommandLine line(
      "dslide run stop RUN [--wait SECONDS]",
      "Stops a run whose scheduler is on this machine: it writes a checkpoint and ends, "
      "as by SIGTERM.");
  line.Positional("RUN", "its run directory", 1, 1);
  line.Option("wait", "SECONDS", "how long to wait for its end", "120");
  return RunExecutable("dslide run stop", line, argc, argv, Stop);
}

// What goes with these directories: files that others have too stay.
uint64_t BytesOnlyIn(const FoundRun& run, const std::vector<std::string>& removable) {
  std::vector<std::string> kept;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run.checkpoints, error)) {
    const std::string path = entry.path().string();
    if (std::ranges::count(removable, path) == 0) kept.push_back(path);
  }
  std::vector<std::string> all = kept;
  all.insert(all.end(), removable.begin(), removable.end());
  return BytesUnder(all) - BytesUnder(kept);
}

// What of runs has gone, or could go.
struct Collected {
  uint64_t bytes = 0;
  size_t count = 0;
  size_t failures = 0;
};

// Removes a directory; false: it is still there, and a line has said why.
bool Remove(const std::string& path) {
  RemoveCheckpoint(path);
  std::error_code error;
  fs::remove_all(path, error);  // of nothing, unless there is an error to name
  if (!fs::exists(fs::symlink_status(path))) {
    fmt::print("removed {}\n", path);
    return true;
  }
  fmt::print("{}: cannot be removed: {}\n", path,
             error ? error.message() : "something else writes to it");
  return false;
}

Status CollectRun(const FoundRun& run, const std::vector<FoundRun>& runs, bool removes,
                  Collected* to) {
  Result<std::vector<std::string>> removable = RemovableOf(run, runs);
  DSLIDE_RETURN_IF_ERROR(removable);
  if (removable->empty()) return {};
  std::optional<HeldRun> held;
  if (removes) {
    Result<HeldRun> hold = HeldRun::Hold(run);
    DSLIDE_RETURN_IF_ERROR(hold);
    held.emplace(*std::move(hold));
    // It may have gone on in between, and ended again.
    removable = RemovableOf(run, runs);
    DSLIDE_RETURN_IF_ERROR(removable);
  }
  if (!removes) {
    for (const std::string& path : *removable) fmt::print("{}\n", path);
    to->count += removable->size();
    to->bytes += BytesOnlyIn(run, *removable);
    return {};
  }
  const uint64_t before = BytesUnder({run.checkpoints});
  for (const std::string& path : *removable) ++(Remove(path) ? to->count : to->failures);
  to->bytes += before - std::min(before, BytesUnder({run.checkpoints}));
  return {};
}

Status Collect(const ParsedArguments& arguments) {
  const auto runs = RunsIn(arguments.Positional()[0]);
  DSLIDE_RETURN_IF_ERROR(runs);
  const bool removes = arguments.Has("yes");
  Collected all;
  for (const FoundRun& run : *runs) {
    const Status status = CollectRun(run, *runs, removes, &all);
    if (!status.ok()) fmt::print("{}: {}; not touched\n", run.directory, status.error().message);
  }
  fmt::print("{} of finished runs, {}{}\n", Plural(all.count, "directory", "directories"),
             SizeText(all.bytes), removes || all.count == 0 ? "" : "; --yes removes them");
  if (all.failures == 0) return {};
  return Failed(fmt::format("{} could not be removed, see above",
                            Plural(all.failures, "directory", "directories")));
}

int CollectCommand(int argc, char** argv) {
  CommandLine line(
      "dslide run gc DIRECTORY [--yes]",
      "Names what nobody needs of the finished runs in a directory: checkpoints before "
      "their last one, and what interrupted ones have left. Removes it with --yes.");
  line.Positional("DIRECTORY", "directory that has run directories in it, or one of them", 1, 1);
  line.Flag("yes", "remove it");
  return RunExecutable("dslide run gc", line, argc, argv, Collect);
}

// A process of a session of its own, that outlives this one, with its output in a file. Not above
// 0: errno.
pid_t StartInBackground(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  errno = error;
  return error == 0 ? pid : -1;
}

// The directories of a run that were made for it: those go again that nothing else is in.
class NewDirectories {
 public:
  explicit NewDirectories(const fs::path& path) {
    std::error_code ignored;
    for (fs::path at = fs::absolute(path).lexically_normal(); !fs::exists(at, ignored);
         at = at.parent_path()) {
      made_.push_back(at);
    }
    fs::create_directories(path, error_);
  }
  std::error_code error() const { return error_; }
  // `file` is what this program has put there.
  void RemoveWith(const fs::path& file) const {
    std::error_code ignored;
    fs::remove(file, ignored);
    for (const fs::path& path : made_) {
      fs::remove(path, ignored);
      if (ignored) return;
    }
  }

 private:
  std::vector<fs::path> made_;  // the innermost first
  std::error_code error_;
};

// Why the scheduler has ended, by its log from `start` on.
Status EndedAtOnce(int code, const std::string& log, std::streamoff start) {
  std::ifstream file(log);
  file.seekg(start);
  std::string line, last, failure;
  while (std::getline(file, line)) {
    if (auto words = FailureIn(line, "dslide-scheduler")) failure = *std::move(words);
    if (!line.empty()) last = line;
  }
  if (code == 0) {
    fmt::print("{}\n", last);
    return {};
  }
  const std::string why =
      failure.empty() ? fmt::format("the scheduler ended with {}, see {}", code, log) : failure;
  for (const ErrorKind kind : {ErrorKind::kBadInput, ErrorKind::kTryLater, ErrorKind::kPreempted}) {
    if (code == ExitCode(kind)) return Error{kind, why};
  }
  return Failed(why);
}

Status StartRun(const ParsedArguments& arguments) {
  const std::string directory = arguments.Positional()[0];
  if (const RunHolder holder = HolderOf(directory); holder.held) {
    return TryLater(fmt::format("{}: runs already{}", directory,
                                holder.pid > 0 ? fmt::format(", pid {}", holder.pid) : ""));
  }
  std::vector<std::string> words = {ExecutableDirectory() + "/dslide-scheduler", "--run-dir",
                                    directory, "--begin-or-resume"};
  if (arguments.Has("config")) words.insert(words.end(), {"--config", arguments.Get("config")});
  const bool is_new = !FindRun(directory).has_value() || arguments.Has("config");
  // An address that the configuration names is kept, also where it is the default one.
  Config base;
  base.cluster.scheduler_bind = kAnyPort;
  // As the scheduler will read it: a run that goes on has a configuration.
  std::string from = arguments.Get("config");
  std::error_code error;
  if (from.empty() && fs::exists(directory + "/" + kLedgerName, error)) {
    from = directory + "/config.ini";
  }
  const Result<Overrides> overrides = OverridesOf(arguments);
  DSLIDE_RETURN_IF_ERROR(overrides);
  const Result<Config> config = LoadConfig(from, *overrides, base);
  DSLIDE_RETURN_IF_ERROR(config);
  DSLIDE_RETURN_IF_ERROR(CheckNotLent(*config));
  if (is_new && config->cluster.scheduler_bind == kAnyPort) {
    words.insert(words.end(), {"--set", fmt::format("cluster.scheduler_bind={}", kAnyPort)});
  }
  for (const std::string& value : *overrides) {
    words.insert(words.end(), {"--set", value});
  }
  DSLIDE_RETURN_IF_ERROR(CheckRunDirectory(directory));
  NewDirectories made(fs::path(directory) / "logs");
  error = made.error();
  if (error) return BadInput(fmt::format("{}: cannot create: {}", directory, error.message()));
  const std::string log = directory + "/logs/scheduler.log";
  const std::string address_file = directory + "/" + kAddressName;
  const auto size = fs::file_size(log, error);
  const bool is_new_log = static_cast<bool>(error);
  const std::streamoff start = error ? 0 : static_cast<std::streamoff>(size);
  const auto before = fs::last_write_time(address_file, error);
  const bool was_there = !error;
  const pid_t pid = StartInBackground(std::move(words), log);
  if (pid <= 0) return Failed(fmt::format("dslide-scheduler: {}", std::strerror(errno)));
  fmt::print("{}: starting, pid {}, log {}\n", directory, pid, log);
  std::fflush(stdout);
  while (true) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      Status ended = EndedAtOnce(code, log, start);
      // A run that was refused leaves nothing, unless its log has to be read.
      if (code == ExitCode(ErrorKind::kBadInput) && is_new_log && !ended.ok() &&
          ended.error().message.find(log) == std::string::npos) {
        made.RemoveWith(log);
      }
      return ended;
    }
    const auto now = fs::last_write_time(address_file, error);
    const Result<std::string> address = ReadFirstLine(address_file);
    if (!error && (!was_there || now != before) && address.ok()) {
      fmt::print("{}: started, listens at {}\n", directory, *address);
      return {};
    }
    poll(nullptr, 0, kLookMs);
  }
}

int StartCommand(int argc, char** argv) {
  CommandLine line("dslide run start RUN [--data FILE] [--config FILE] [options]",
                   "Starts a scheduler in the background: begins the run, or goes on with it. It "
                   "listens at any free port of this machine unless the configuration says where. "
                   "Servers and workers are started by themselves (RUN/scheduler.address).");
  line.Positional("RUN", "its run directory", 1, 1);
  DeclareDataOptions(&line);
  DeclareConfigOptions(&line);
  return RunExecutable("dslide run start", line, argc, argv, StartRun);
}

constexpr Command kRunCommands[] = {
    {"list", ListCommand, "list the runs in a directory, with their state and size"},
    {"start", StartCommand, "start the scheduler of a run in the background"},
    {"stop", StopCommand, "stop a run on this machine, after a checkpoint"},
    {"checkpoint", CheckpointNowCommand, "write a checkpoint of a running cluster"},
    {"drain", DrainCommand, "move the slots of a server to the others, then stop that server"},
    {"gc", CollectCommand, "remove what nobody needs of finished runs"},
};

}  // namespace

int RunsCommand(int argc, char** argv) {
  return RunCommand("dslide run", kRunCommands, argc, argv);
}

}  // namespace dslide
