// What a ServerCore wants done after a call. The shell does it in the order of ServerEffects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/wire/messages.h"
#include "server/executor/slots/slot_job.h"

namespace dslide {

// Start executors for these slots in place of the present ones, and fill them, under this ticket.
struct ServerLoad {
  std::string server;  // its name and incarnation, for its own files
  Config config;
  uint64_t train_samples;
  std::vector<std::vector<SlotId>> slots;  // of each executor
  uint32_t first_executor;                 // cluster-wide number of the first executor
  std::string restore;                     // checkpoint directory; empty: initialise
  uint64_t ticket;
};

// Have the executors mark where they are, in the order of their work, and write that in the
// background. The outcome goes to ServerCore::HandleSaved().
struct ServerSave {
  std::string name;
  std::string directory;
  std::string shard;                  // sub-directory for this server
  std::vector<std::string> keep;      // earlier checkpoints that stay, by name
  std::vector<SlotId> slots;          // this server's, ascending
  std::optional<uint64_t> committed;  // synchronous training: the steps that it has to hold
  uint64_t ticket;
};

// For the executors: a request, or a job about slots. When a plan newer than a worker's request is
// in force, the result would be discarded: executors should skip the work and answer kStalePlan.
struct ServerWork {
  uint64_t ticket;
  Incarnation sender;
  std::shared_ptr<const Body> request;
  std::shared_ptr<const SlotJob> job = nullptr;  // then there is no request
  uint32_t plan_version = 0;                     // of a worker's request

  bool StaleUnder(uint32_t plan) const { return plan_version != 0 && plan_version < plan; }
};

// Have the executors report what their slots cost. The parts are Heartbeats with
// Executor::TakeLoad(), and with Executor::Occupancy() if `tables`.
struct ServerMeasurement {
  uint64_t ticket;
  bool tables;
};

struct ServerEffects {
  std::string name;  // by which the scheduler knows the server from now on; empty: as before
  std::vector<std::string> notices;
  std::vector<std::string> warnings;
  std::vector<Message> to_scheduler;
  std::vector<std::pair<PeerId, Bytes>> to_workers;
  bool unload = false;  // stop the executors: the slots belong to other servers now
  std::optional<ServerLoad> load;
  std::optional<ServerSave> save;
  std::vector<std::pair<std::string, Message>> to_servers;  // by address
  std::vector<ServerWork> work;
  std::optional<ServerMeasurement> measure;
  std::optional<Status> exit;
};

}  // namespace dslide
