// A command of the operator's that runs after each checkpoint, to copy it elsewhere: by sh, the
// checkpoint's directory is $1 and in DSLIDE_CHECKPOINT. One runs at a time, and the loop that
// calls Tick() never waits for it. Of checkpoints that come while it runs the newest is the next. A
// command that fails, or runs for too long, is run again with the next checkpoint, or after a
// while: 5 s, then 10, up to 10 minutes. Used by one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/log/event.h"

namespace dslide {

class CheckpointHook {
 public:
  static constexpr int64_t kFirstRetryMs = 5000;
  static constexpr int64_t kLastRetryMs = 600'000;
  static constexpr int64_t kTimeoutMs = 600'000;  // a command may run, to copy a checkpoint
  static constexpr int64_t kKillMs = 5000;        // from SIGTERM to SIGKILL

  struct Figures {
    uint32_t runs = 0;      // that have ended
    uint32_t failures = 0;  // of those
    uint32_t in_a_row = 0;  // failures since the last success
    std::string why;        // the last run failed: "exit code 3"; "" if it did not
    std::string done;       // directory that it succeeded with last; "" if it has not yet
    std::string running;    // directory that it runs for; "": it does not
  };

  // `setting` names it in lines. An empty command: no hook, and nothing below does anything.
  // `timeout_ms`: a command that runs for longer is ended, and has failed.
  CheckpointHook(std::string setting, std::string command, int64_t timeout_ms = kTimeoutMs)
      : setting_(std::move(setting)), command_(std::move(command)), timeout_ms_(timeout_ms) {}
  CheckpointHook(const CheckpointHook&) = delete;
  CheckpointHook& operator=(const CheckpointHook&) = delete;
  ~CheckpointHook();  // asks a command that runs to end, and kills it a second later

  bool exists() const { return !command_.empty(); }
  // A checkpoint is there. `variables`: of the command's environment besides, "NAME=VALUE".
  void Offer(const std::string& directory, std::vector<std::string> variables = {});
  // A file beside the newest checkpoint, `directory`, has changed: the command runs for that
  // checkpoint, also if it has done so before.
  void Repeat(const std::string& directory);
  // Collects, ends and starts commands. Lines for the log.
  std::vector<Event> Tick(int64_t now_ms);
  // It runs, or has to run: the newest checkpoint is not done.
  bool busy() const { return pid_ > 0 || !next_.empty(); }
  // For a process that is about to end: whether the newest checkpoint is done. Waits for that as
  // long as the command may run, or until its second failure. `tend` calls Tick(), lets a moment
  // pass, and returns false to end the wait.
  bool Await(int64_t (*now_ms)(), const std::function<bool()>& tend) const;
  const Figures& figures() const { return figures_; }

 private:
  void Start(int64_t now_ms, std::vector<Event>* events);
  void Ended(const std::string& why, int64_t now_ms, std::vector<Event>* events);

  std::string setting_;
  std::string command_;
  int64_t timeout_ms_;
  std::string next_;  // directory; "": none
  std::vector<std::string> variables_;
  Figures figures_;
  pid_t pid_ = -1;  // also its process group
  int64_t started_ms_ = 0;
  int64_t not_before_ms_ = 0;
  bool told_to_end_ = false;
  bool again_ = false;  // the command that runs has to run again
};

}  // namespace dslide
