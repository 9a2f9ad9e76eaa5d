#include "tools/dslide/cluster/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/process.h"

namespace dslide {
namespace {

// Runs in the child. Reports a failed exec through `report_fd` and never returns.
[[noreturn]] void Exec(const std::string& program, std::vector<char*> argv, int log_fd,
                       bool share_output, pid_t launcher, int report_fd) {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  setpgid(0, 0);
  DieWithParent();
  if (getppid() != launcher) _exit(1);  // the launcher ended before the line above
  dup2(log_fd, STDERR_FILENO);
  if (!share_output) dup2(log_fd, STDOUT_FILENO);
  execv(program.c_str(), argv.data());
  const int error = errno;
  (void)!write(report_fd, &error, sizeof error);
  _exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::Start(std::string name, const std::string& program,
                                         const std::vector<std::string>& arguments,
                                         const std::string& log, bool share_output) {
  const int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return Failed(fmt::format("{}: cannot create: {}", log, std::strerror(errno)));
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    close(log_fd);
    return Failed(fmt::format("cannot start {}: {}", program, std::strerror(errno)));
  }
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(program, std::move(argv), log_fd, share_output, launcher, report[1]);
  int error = pid < 0 ? errno : 0;
  close(log_fd);
  close(report[1]);
  if (pid > 0) {
    int reported = 0;
    if (read(report[0], &reported, sizeof reported) == sizeof reported) error = reported;
  }
  close(report[0]);
  if (error != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    return Failed(fmt::format("cannot start {}: {}", program, std::strerror(error)));
  }
  return ChildProcess(std::move(name), log, pid);
}

std::string ChildProcess::Ending() const {
  return signal_ != 0 ? fmt::format("signal {}", signal_) : fmt::format("exit code {}", exit_code_);
}

bool ChildProcess::WantsRestart() const {
  return signal_ != 0 || exit_code_ == ExitCode(ErrorKind::kTryLater) ||
         exit_code_ == ExitCode(ErrorKind::kPreempted);
}

bool ChildProcess::Poll() {
  if (!running_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  running_ = false;
  signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit_code_ = signal_ != 0 ? 128 + signal_ : WEXITSTATUS(status);
  return true;
}

void ChildProcess::Signal(int signal) {
  if (running_) kill(pid_, signal);
}

void StopAll(const std::vector<ChildProcess*>& children, int grace_ms) {
  const auto any_running = [&] {
    for (ChildProcess* child : children) child->Poll();
    return std::any_of(children.begin(), children.end(),
                       [](const ChildProcess* child) { return child->running(); });
  };
  for (ChildProcess* child : children) child->Signal(SIGTERM);
  const int64_t deadline_ms = MonotonicMillis() + grace_ms;
  while (any_running() && MonotonicMillis() < deadline_ms) poll(nullptr, 0, 20);
  for (ChildProcess* child : children) child->Signal(SIGKILL);
  while (any_running()) poll(nullptr, 0, 5);
}

std::string ExecutableDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace dslide
