// A small cluster whose processes are started one by one and replaced when they end, as a person or
// a cloud's scheduler would.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/process.h"

namespace dslide {

// One thread uses it. All its processes end with it.
class KeptCluster {
 public:
  static constexpr int kServers = 2;
  static constexpr int kWorkers = 2;
  static constexpr int kLeaseMs = 600;  // cluster.lease_timeout_ms
  static constexpr int kTrainSamples = 4000;
  static constexpr int kEpochs = 6;  // of 63 batches

  struct Options {
    bool synchronous = false;
    bool takeover = false;  // survivors take over a dead server's slots after a second
    bool elastic = true;    // slots move to servers that join and from those that leave
    // Workers wait after every batch. So the run lasts three seconds, without more work for the
    // CPU: long enough to miss a stopped process, or to move slots twice.
    bool slow = false;
  };

  // Writes data and configuration into `directory`; starts nothing.
  KeptCluster(std::string directory, const Options& options);

  // Starts "scheduler", "server-N" or "worker-N"; `failpoints` are for this life only. Waits for
  // the scheduler's address first.
  void Start(const std::string& name, const std::string& failpoints = "");
  // Failpoints of the replacement that follows the present life.
  void SetNext(const std::string& name, const std::string& failpoints);
  // Starts all members that have not been started yet.
  void StartRest();

  // Waits for a condition and meanwhile replaces processes that end. False if it does not hold by
  // the deadline or cannot hold any more: the run is over, or failure() is set.
  bool Await(const std::function<bool()>& condition, int deadline_ms = kDeadlineMs);
  // Waits until the scheduler has ended with 0, and then all other members. False: see failure().
  bool AwaitEnd();
  // Once: collects processes that have ended and starts replacements.
  void Supervise();

  bool finished() const { return finished_; }
  const std::string& failure() const { return failure_; }
  // SIGKILL, SIGTERM, SIGSTOP or SIGCONT to the present life of that name.
  void Strike(const std::string& name, int signal);
  // SIGTERM to a member; if it then ends with 0 it is not replaced.
  void Retire(const std::string& name);
  // The life of that name that was started last. REQUIRES that there is one.
  Process& Now(const std::string& name) { return *Find(name)->process; }
  int Lives(const std::string& name);
  // Whoever pauses at that path (a failpoint's) goes on, now and later.
  void OpenForGood(std::string path) { open_.push_back(std::move(path)); }
  // Starts a second process of the same name beside the present one, which is stopped and is not
  // replaced. Returns the stopped one, which the caller has to continue.
  Process& StartBeside(const std::string& name);

  // Starts a request for a checkpoint; the process ends with 0 when the manifest is written.
  std::unique_ptr<Process> RequestCheckpoint();
  // Starts `dslide run drain`; the process ends with 0 when that server has left.
  std::unique_ptr<Process> RequestDrain(const std::string& name);
  bool HasCheckpoint() const;

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string run_directory() const { return Path("run"); }
  static uint64_t samples() { return uint64_t{kEpochs} * kTrainSamples; }  // of all epochs
  std::string AllErrors(const std::string& name) const;  // of all lives of the name
  nlohmann::json Summary() const;
  // The last lines of every process's last lives.
  std::string LastLines() const;
  // Runs `dslide ...` to its end; returns its standard output as JSON, discarded if it failed.
  nlohmann::json Ask(const std::vector<std::string>& arguments);

 private:
  struct Member {
    std::string name;
    int lives = 0;
    std::unique_ptr<Process> process;
    std::string next;     // failpoints of the next life
    bool struck = false;  // this life was ended by a signal, not by the scheduler
    int dismissals = 0;   // dismissals_ when this life began
  };

  Member* Find(const std::string& name);
  void KillStrangers();
  std::string LogOf(const std::string& name, int life) const;
  std::string Address() const;
  void Launch(Member* member);
  std::vector<std::string> ArgumentsOf(const Member& member) const;
  std::unique_ptr<Process> Request(const std::vector<std::string>& arguments);
  void WriteConfig() const;
  void OnEnd(Member* member, int code);

  std::string directory_;
  Options options_;
  std::list<Member> members_;
  std::vector<std::string> open_;                 // OpenForGood()
  std::vector<std::unique_ptr<Process>> beside_;  // first processes of names that have a second one
  bool finished_ = false;
  int dismissals_ = 0;  // lives of the scheduler that ended by themselves and were replaced
  std::string failure_;
  int asked_ = 0;
};

}  // namespace dslide
