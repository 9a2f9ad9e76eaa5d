// The server process: sockets, executors and files around a ServerCore.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/net/socket.h"
#include "server/checkpoint_store.h"
#include "server/executor_pool.h"
#include "server/server_core.h"

namespace dslide {

struct ServerOptions {
  std::string scheduler;  // address to dial
  std::string bind;
  std::string advertise;  // empty: the bound address
  std::string name;       // empty: the scheduler gives one
};

// Runs until the scheduler ends the run or a signal comes. One thread owns all sockets.
class ServerShell {
 public:
  static Status Run(const ServerOptions& options, StopSignals* signals);

 private:
  ServerShell(ServerCore core, RouterSocket workers, DealerSocket scheduler);

  Status Loop(StopSignals* signals);
  void Apply(ServerCore::Effects effects);
  void StartExecutors(const ServerCore::Load& load);
  void StartSave(const ServerCore::Save& save);
  void Send(const Message& message);

  ServerCore core_;
  RouterSocket workers_;
  DealerSocket scheduler_;
  std::unique_ptr<ExecutorPool> pool_;
  std::deque<std::string> saved_;  // shard directories of this life, oldest first
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  std::optional<Status> exit_;
};

}  // namespace dslide
