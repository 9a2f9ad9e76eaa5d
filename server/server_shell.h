// The server process: sockets, executors and files around a ServerCore.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/checkpoint/checkpoint_hook.h"
#include "common/log/event.h"
#include "common/log/line_limit.h"
#include "common/net/member_link.h"
#include "common/net/socket.h"
#include "server/core/server_core.h"
#include "server/executor/executor_pool.h"
#include "server/rows/row_disk.h"
#include "server/server_storage.h"

namespace dslide {

struct ServerOptions {
  SchedulerAccess scheduler;
  std::string bind;
  std::string advertise;      // empty: the bound address
  std::string name;           // empty: the scheduler gives one
  uint64_t memory_bytes = 0;  // for rows and tables
  uint64_t disk_bytes = 0;    // for checkpoints; 0: any
  RowDisk row_disk;
  std::string hook;  // checkpoint.shard_hook, or empty
};

// Runs until the scheduler ends the run or a signal comes. One thread owns all sockets.
class ServerShell {
 public:
  static Status Run(const ServerOptions& options, StopSignals* signals);

 private:
  ServerShell(NetContext* context, AccessListHolder* access, ServerCore core, RouterSocket workers,
              DealerSocket scheduler, SchedulerAccess scheduler_access,
              const ServerOptions& options);

  ~ServerShell() { StopExecutors(); }

  Status Loop(StopSignals* signals);
  void FollowConfig();
  void Receive();
  void ForgetServers();
  void ReceiveFromScheduler();
  void ReceiveFromPeers();
  void CollectFromExecutors();
  // Executes actions front to back.
  void Apply(ServerCore::Actions actions);
  void Execute(const server_action::Rename& rename);
  void Execute(const server_action::Log& log);
  void Execute(server_action::LogWarning warning);
  void Execute(const server_action::SendToScheduler& send);
  void Execute(server_action::SendToPeer send);
  void Execute(const server_action::SendToServer& send);
  void Execute(const server_action::StopExecutors&) { StopExecutors(); }
  void Execute(const server_action::StartExecutors& start) { StartExecutors(start.load); }
  void Execute(ServerSave save);
  void Execute(const server_action::GiveUpSave& give_up) { storage_->GiveUp(give_up.why); }
  void Execute(ServerWork work);
  void Execute(server_action::Exit exit) { exit_ = std::move(exit.outcome); }
  void StopExecutors();
  void StartExecutors(const std::shared_ptr<const ServerLoad>& load);
  void Warn(LineLimit* limit, Event line);
  Heartbeat Usage() const;
  void TendHook();
  void WaitForHook(StopSignals* signals);

  NetContext* context_;
  AccessListHolder* access_;  // without keys in a run without encryption
  AwakeClock clock_;
  ServerCore core_;
  RouterSocket workers_;
  DealerSocket scheduler_;
  SchedulerAccess scheduler_access_;
  SilenceReport silence_;
  // Whose slots it takes. One that came back may have another key at the same address.
  std::map<std::pair<std::string, Incarnation>, DealerSocket> servers_;
  uint32_t servers_plan_ = 0;               // by which those there are were looked through
  std::unique_ptr<ServerStorage> storage_;  // of the executors in pool_
  std::unique_ptr<ExecutorPool> pool_;
  CheckpointHook hook_;              // checkpoint.shard_hook
  CheckpointStore::DiskSpeed disk_;  // of the last checkpoint
  ServerSave saving_;                // the last save
  uint64_t disk_bytes_ = 0;          // for checkpoints; 0: any
  uint64_t connection_bytes_ = 0;    // that a peer may have waiting; 0: as bound
  uint32_t most_workers_ = 0;        // that connections are for; 0: as bound
  LineLimit refusal_lines_;
  LineLimit peer_lines_;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  std::optional<Status> exit_;
};

}  // namespace dslide
