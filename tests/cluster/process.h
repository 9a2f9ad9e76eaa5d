// Real processes under test. Every wait has a deadline and waits for a condition.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dslide {

// Longer than anything takes on a busy machine with sanitizers; a test that hits it has failed.
constexpr int kDeadlineMs = 120000;

// Checks every few milliseconds; false if `condition` does not hold by the deadline.
bool WaitFor(const std::function<bool()>& condition, int deadline_ms = kDeadlineMs);

class Process {
 public:
  // Starts one of the project's executables. Standard output goes to `log`.out, standard error to
  // `log`.err. `failpoints`: the process's DSLIDE_FAILPOINTS.
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const std::string& log, const std::string& failpoints = "");
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // kills the process if it still runs

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The exit code, or minus the signal that ended the process; nullopt: it runs past the deadline.
  std::optional<int> Wait(int deadline_ms = kDeadlineMs);
  bool Running();
  bool Stopped();  // by SIGSTOP

  std::string Output() const;  // standard output so far
  std::string Errors() const;  // standard error so far

 private:
  bool Collect();

  std::string log_;
  pid_t pid_;
  std::optional<int> ending_;
};

// Standard input of the processes that start during this object's life: a file, or a pipe that has
// its contents.
class StandardInput {
 public:
  enum class Kind { kFile, kPipe };
  explicit StandardInput(const std::string& path, Kind kind = Kind::kFile);
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  int before_;
};

// Direct and indirect children of a process that run now.
std::vector<pid_t> Descendants(pid_t root);
// The process is gone, or a zombie that its parent has not collected yet.
bool IsGone(pid_t pid);

// A free TCP port of loopback, another one with each call.
int FreePort();
std::string Loopback(int port);

std::string ReadFile(const std::string& path);  // "" if there is none

}  // namespace dslide
