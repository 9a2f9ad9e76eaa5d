// Processes started by the launcher. None of them outlives it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

class ChildProcess {
 public:
  // Starts `program` with `arguments` in a process group of its own (so that Ctrl-C reaches the
  // launcher only), standard error appended to `log`, and standard output too unless
  // `share_output`. The child gets SIGTERM when the launcher ends, in whatever way.
  static Result<ChildProcess> Start(std::string name, const std::string& program,
                                    const std::vector<std::string>& arguments,
                                    const std::string& log, bool share_output);

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  bool running() const { return running_; }
  // REQUIRES !running().
  int exit_code() const { return exit_code_; }  // 128 + signal if it was killed
  std::string Ending() const;                   // "exit code 1", "signal 9"
  // Whether a restart makes sense: it ended by a signal, or with exit code 75 or 85.
  bool WantsRestart() const;
  bool killed() const { return !running_ && signal_ != 0; }  // by a signal

  // Collects the process if it has ended. True if this call has collected it.
  bool Poll();
  void Signal(int signal);

 private:
  ChildProcess(std::string name, std::string log, pid_t pid)
      : name_(std::move(name)), log_(std::move(log)), pid_(pid) {}

  std::string name_;
  std::string log_;
  pid_t pid_;
  bool running_ = true;
  int exit_code_ = 0;
  int signal_ = 0;
};

// Sends SIGTERM to all children, and SIGKILL to those that still run after `grace_ms`.
void StopAll(const std::vector<ChildProcess*>& children, int grace_ms);

// The directory of the running executable: its siblings are started from there.
std::string ExecutableDirectory();

}  // namespace dslide
