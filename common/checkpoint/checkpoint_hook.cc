#include "common/checkpoint/checkpoint_hook.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/log/events.h"

namespace dslide {
namespace {

// Starts the command in a process group of its own, without this process's files and blocked
// signals; what it writes goes to the log. Not above 0: errno.
pid_t Spawn(const std::string& command, const std::string& directory,
            std::vector<std::string> variables) {
  std::vector<std::string> words = {"sh", "-c", command, "dslide-hook", directory};
  std::vector<char*> argv, environment;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
  variables.push_back("DSLIDE_CHECKPOINT=" + directory);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/bin/sh", &files, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  errno = error;
  return error == 0 ? pid : -1;
}

}  // namespace

CheckpointHook::~CheckpointHook() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGTERM);
  for (int waited_ms = 0; waited_ms < 1000 && waitpid(pid_, nullptr, WNOHANG) == 0; waited_ms += 10)
    poll(nullptr, 0, 10);
  kill(-pid_, SIGKILL);  // or what it has started
}

void CheckpointHook::Offer(const std::string& directory, std::vector<std::string> variables) {
  if (!exists()) return;
  if (directory != next_) not_before_ms_ = 0;
  next_ = directory;
  variables_ = std::move(variables);
}

void CheckpointHook::Repeat(const std::string& directory) {
  if (pid_ > 0 && next_ == figures_.running) again_ = true;
  if (next_.empty()) Offer(directory, std::move(variables_));
}

std::vector<Event> CheckpointHook::Tick(int64_t now_ms) {
  std::vector<Event> events;
  if (pid_ > 0) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    const int64_t ran_ms = now_ms - started_ms_;
    if (ended != 0) {
      const std::string why =
          ended < 0                  ? std::string("its end is not known")
          : told_to_end_             ? fmt::format("it ran for more than {} s", timeout_ms_ / 1000)
          : WIFSIGNALED(status)      ? fmt::format("signal {}", WTERMSIG(status))
          : WEXITSTATUS(status) != 0 ? fmt::format("exit code {}", WEXITSTATUS(status))
                                     : "";
      if (told_to_end_) kill(-pid_, SIGKILL);  // what it has started
      pid_ = -1;
      Ended(why, now_ms, &events);
    } else if (ran_ms >= timeout_ms_) {
      kill(-pid_, ran_ms >= timeout_ms_ + kKillMs ? SIGKILL : SIGTERM);
      told_to_end_ = true;
    }
  }
  if (pid_ <= 0 && !next_.empty() && now_ms >= not_before_ms_) Start(now_ms, &events);
  return events;
}

bool CheckpointHook::Await(int64_t (*now_ms)(), const std::function<bool()>& tend) const {
  constexpr uint32_t kFailures = 2;
  const int64_t end_ms = now_ms() + timeout_ms_ + kKillMs;
  const uint32_t before = figures_.failures;
  while (busy() && figures_.failures < before + kFailures && now_ms() < end_ms && tend()) {
  }
  return !busy();
}

void CheckpointHook::Start(int64_t now_ms, std::vector<Event>* events) {
  started_ms_ = now_ms;
  told_to_end_ = false;
  figures_.running = next_;
  pid_ = Spawn(command_, next_, variables_);
  again_ = false;
  if (pid_ <= 0) Ended(std::strerror(errno), now_ms, events);
}

void CheckpointHook::Ended(const std::string& why, int64_t now_ms, std::vector<Event>* events) {
  figures_.runs++;
  figures_.why = why;
  const std::string directory = std::move(figures_.running);
  figures_.running.clear();
  if (why.empty()) {
    if (figures_.in_a_row > 0) {
      events->push_back({event::kHookSucceeded,
                         fmt::format("{}: good again, with {}", setting_, directory),
                         {{"key", setting_}, {"directory", directory}}});
    }
    figures_.in_a_row = 0;
    figures_.done = directory;
    if (next_ == directory && !again_) next_.clear();
    return;
  }
  figures_.failures++;
  figures_.in_a_row++;
  const int64_t wait_ms =
      std::min(kLastRetryMs, kFirstRetryMs << std::min<uint32_t>(figures_.in_a_row - 1, 10));
  if (next_ == directory) not_before_ms_ = now_ms + wait_ms;
  events->push_back(
      {event::kHookFailed,
       fmt::format(
           "{} failed with {}: {}{}; again {}", setting_, directory, why,
           figures_.in_a_row > 1 ? fmt::format(", {} times in a row", figures_.in_a_row) : "",
           next_ == directory ? fmt::format("in {} s, or with the next checkpoint", wait_ms / 1000)
                              : "with the next checkpoint now"),
       {{"key", setting_},
        {"directory", directory},
        {"why", why},
        {"in_a_row", figures_.in_a_row}}});
}

}  // namespace dslide
