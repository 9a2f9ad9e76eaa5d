// A whole cluster on this machine, as real processes: started, kept running, followed to its end.
#pragma once

#include <cstdint>
#include <ios>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/config/config.h"
#include "common/data/file_lock.h"
#include "tools/dslide/cluster/child_process.h"
#include "tools/dslide/cluster/new_files.h"
#include "tools/dslide/cluster/restart_limit.h"

namespace dslide {

// What a launch sets where the user leaves it open. Any free port, so that several runs fit on one
// machine.
constexpr char kLaunchedBind[] = "tcp://127.0.0.1:*";
// Per server; `servers` share this machine.
uint32_t LaunchedExecutors(uint32_t servers);

struct Launch {
  Config config;
  std::string config_file;        // "": none
  Overrides overrides;            // over the file; the children get them too
  Overrides of_servers;           // the servers get these as well
  uint32_t server_memory_mb = 0;  // what each of them may use for rows and hash tables
  std::string run_directory;
  bool resume = false;
  std::string notice;            // a warning to print before the start, if not empty
  std::optional<NewFiles> made;  // removed if the run is refused before a batch counts
};

// A child that a signal ended is started again at once under the same name, the scheduler with
// --resume; but not a scheduler that has read data once and not begun its run. So are servers and
// workers that exit with 75 or 85. Used by one thread.
class Launcher {
 public:
  Launcher(Launch launch, StopSignals* signals) : launch_(std::move(launch)), signals_(signals) {}
  ~Launcher();  // ends all children

  // Returns when the scheduler has ended. The error has the scheduler's last line and exit code, or
  // names the child that cannot be kept running and its log. What is refused (kBadInput) leaves
  // nothing.
  Status Run();

 private:
  // Inode and time of change; nullopt: no file.
  using FileIdentity = std::optional<std::pair<uint64_t, int64_t>>;

  enum class Kind { kScheduler, kServer, kWorker };
  struct Child {
    Kind kind;
    ChildProcess process;
    int64_t started_ms;
    RestartLimit restarts;
  };

  std::string Path(const std::string& name) const { return launch_.run_directory + "/" + name; }
  ChildProcess& scheduler() { return children_.front().process; }

  Status RunToEnd();
  Status Prepare();
  Status Add(Kind kind, const std::string& name);
  Result<ChildProcess> Start(Kind kind, const std::string& name);
  std::vector<std::string> ArgumentsOf(Kind kind, const std::string& name);
  std::vector<std::string> ConfigArguments(Kind kind) const;
  bool Encrypted() const;
  std::string Address() const;
  FileIdentity IdentityOf(const std::string& name) const;
  Status WaitForAddress();
  bool HasBegun() const;
  Status CheckDataIsLeft() const;
  Status DrawMemberKeys();
  std::string KeyOf(Kind kind, const std::string& name) const;
  Status StartMembers();
  Status Follow();
  Status OnMemberEnd(Child* child);
  Status StartAgain(Child* child);
  void StopWithoutWorkers();
  void StopAllChildren();
  bool HasTrained();
  bool SchedulerEnds();
  bool WaitsForHook() const;
  bool Running(std::optional<Kind> kind);  // any child, or any of a kind
  void AwaitLeaving();
  Status AfterScheduler();
  Error SchedulerFailure();
  Error CannotGoOn(const Child& child, const std::string& what) const;

  Launch launch_;
  StopSignals* signals_;
  std::optional<FileLock> lock_;  // of the run directory
  bool stopping_ = false;         // the scheduler was asked to end
  std::string diverged_;          // the last error of a worker whose training diverged
  std::streamoff log_start_ = 0;  // of this life in the scheduler's log
  FileIdentity old_address_;      // file of an earlier launch
  FileIdentity old_summary_;      // file of an earlier launch
  std::vector<Child> children_;   // the scheduler first, then servers, then workers
};

}  // namespace dslide
