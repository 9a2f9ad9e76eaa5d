// A server process in the simulation: what server/server_shell.h does around a ServerCore, with
// executors that take simulated time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/core/server_core.h"
#include "server/executor/job_backlog.h"
#include "tests/simulation/sim_executor.h"
#include "tests/simulation/world/sim_world.h"

namespace dslide::sim {

// The executors of one server, as server/executor/executor_pool.h has them in threads. Each does
// its jobs in the order of submission; how long a job takes is drawn. Between jobs it works on its
// snapshot.
class SimExecutors : public std::enable_shared_from_this<SimExecutors> {
 public:
  using Job = std::function<JobReply(SimExecutor&)>;
  using Done = std::function<void(ExecutorPool::Outcome)>;

  SimExecutors(SimWorld* world, SimHost* host, const ServerLoad& load, Done done);

  void Submit(uint64_t job_id, const Job& job);
  size_t batches_in_flight() const;  // the most of any executor

 private:
  struct Task {
    uint64_t job_id;
    Job job;
  };
  struct Lane {
    std::unique_ptr<SimExecutor> executor;
    std::deque<Task> tasks;
    bool busy = false;
  };
  // So few that jobs have to wait now and then.
  static constexpr size_t kQueued = 4;

  void Feed();
  void Next(uint32_t index);
  void Background(uint32_t index);
  void After(int64_t delay_us, std::function<void(SimExecutors&)> event);

  SimWorld& world_;
  SimHost& host_;
  Done done_;
  JobBacklog<Task> backlog_;
  std::vector<Lane> lanes_;
};

class SimServer : public SimProcess {
 public:
  SimServer(SimWorld* world, SimHost* host);

  void Start() override;
  void Tick() override;
  void Stop() override;

 private:
  void TakeFromScheduler(const Bytes& bytes);
  void TakeFromWorkers();
  void CheckMayWork(const Envelope& envelope, size_t kind);
  void TakeFromServer(const Bytes& bytes);
  JobReply Work(const ExecutorJob& job, SimExecutor* executor);
  void Apply(const ServerCore::Actions& actions);
  void SendToServer(const std::string& address, const Message& message);
  void StartExecutors(const ServerLoad& load);
  void CheckMemory() const;
  void StartSave(const ServerSave& save);
  JobReply LoadExecutor(const ServerLoad& load, bool stored, SimExecutor* executor);
  void Leave(Status outcome);

  SimWorld& world_;
  SimHost& host_;
  std::string address_;
  ServerCore core_;
  SimNetwork::LinkId scheduler_ = 0;
  std::deque<std::pair<PeerId, Bytes>> inbox_;         // from workers, while no requests are taken
  std::map<std::string, SimNetwork::LinkId> servers_;  // whose slots it takes, by address
  std::set<Incarnation> dropped_;                      // workers, since it has loaded its slots
  std::shared_ptr<SimExecutors> executors_;            // null: nothing is loaded
  std::unique_ptr<SimStore> store_;                    // theirs
};

}  // namespace dslide::sim
