// A machine of the simulated cluster: its clock, and the process that runs on it, one life after
// another.
//
// Every event of a process passes Run() or Post() of its host. They drop events that were meant for
// an earlier life, and hold back events while the process is stopped (SIGSTOP).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "tests/simulation/world/sim_clock.h"

namespace dslide::sim {

// One life of a role: its core, and the work of the shell around it.
class SimProcess {
 public:
  virtual ~SimProcess() = default;
  virtual void Start() = 0;
  // What the shell's loop does when nothing arrives for a while.
  virtual void Tick() = 0;
  // SIGTERM.
  virtual void Stop() = 0;

  // Set once the process has ended by itself.
  const std::optional<Status>& exit() const { return exit_; }

 protected:
  std::optional<Status> exit_;
};

class SimHost {
 public:
  SimHost(uint32_t number, std::string name, SimClock* clock)
      : number_(number), name_(std::move(name)), clock_(clock) {}

  uint32_t number() const { return number_; }
  const std::string& name() const { return name_; }
  uint64_t life() const { return life_; }
  bool alive() const { return process_ != nullptr; }
  bool paused() const { return paused_; }
  SimProcess* process() const { return process_.get(); }

  // This machine's own monotonic clock.
  int64_t now_us() const { return clock_->now_us() + offset_us_; }
  int64_t now_ms() const { return now_us() / kMs; }
  void JumpClock(int64_t forward_us) { offset_us_ += forward_us; }

  // Begins a life. REQUIRES !alive().
  void Begin(std::unique_ptr<SimProcess> process);
  // Ends the life at once; events held back are lost. Safe within the process's own functions: the
  // object lives until the event is over.
  void End();

  void Pause();
  void Resume();
  // Writes to this host's disk fail until then.
  void FailDisk(int64_t until_us) { disk_fails_until_us_ = until_us; }
  bool DiskFails() const { return clock_->now_us() < disk_fails_until_us_; }

  // Whether a message that this process sent at `time_us` was still in the process's own queues
  // when it was stopped.
  bool KeepsBack(int64_t time_us) const { return paused_ && time_us >= paused_from_us_; }

  // Runs `event` for the present life after a delay that the process itself asks for.
  void Post(int64_t delay_us, std::function<void()> event);
  // Runs `event` now, for life number `life`.
  void Run(uint64_t life, std::function<void()> event);

 private:
  uint32_t number_;
  std::string name_;
  SimClock* clock_;
  int64_t offset_us_ = 0;
  uint64_t life_ = 0;
  std::unique_ptr<SimProcess> process_;
  bool paused_ = false;
  int64_t paused_from_us_ = 0;
  int64_t disk_fails_until_us_ = 0;
  std::deque<std::function<void()>> kept_back_;
};

}  // namespace dslide::sim
