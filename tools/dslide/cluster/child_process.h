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
  // `share_output`. It gets SIGTERM when the launcher's process ends, however it ends.
  static Result<ChildProcess> Start(std::string name, const std::string& program,
                                    const std::vector<std::string>& arguments,
                                    const std::string& log, bool share_output);

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  bool running() const { return running_; }
  // REQUIRES !running().
  int exit_code() const { return exit_code_; }  // 128 + signal if it was killed
  std::string Ending() const;                   // "exit code 1", "signal 9"
  // Ended by a signal, or with 75 or 85: nothing wrong with what it was told to do.
  bool WantsRestart() const;
  bool killed() const { return !running_ && signal_ != 0; }  // by a signal

  // Collects the process if it has ended. True if it ended just now.
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

// Asks all to stop by SIGTERM, and ends those by SIGKILL that are still there after `grace_ms`.
void StopAll(const std::vector<ChildProcess*>& children, int grace_ms);

// The directory of the running executable: its siblings are started from there.
std::string ExecutableDirectory();

}  // namespace dslide
