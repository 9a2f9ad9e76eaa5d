// The actions that a call of ServerCore returns. The shell executes them in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/log/event.h"
#include "common/wire/messages.h"
#include "server/executor/job.h"
#include "server/rows/row_disk.h"

namespace dslide {

// The slots of new executors, and the checkpoint that fills them.
struct ServerLoad {
  std::string server;  // its name and incarnation, for its own files
  Config config;
  uint64_t train_samples;
  std::vector<std::vector<SlotId>> slots;  // of each executor
  std::string restore;                     // checkpoint directory; empty: initialise
  uint64_t batch_bytes = 0;                // that batches in flight may take in an executor
  uint64_t row_bytes = 0;                  // and rows in all executors; 0: no limit
  RowDisk disk = {};                       // for rows above that limit
  uint64_t job_id;
};

// Begin a checkpoint in the store, then give the executors a MarkJob with this id. The store's
// outcome goes to ServerCore::HandleSaved(), after all outcomes of executors that came before it.
struct ServerSave {
  std::string name;
  std::string directory;
  std::string shard;                  // sub-directory for this server
  std::vector<std::string> keep;      // earlier checkpoints that stay, by name
  std::vector<SlotId> slots;          // this server's, ascending
  uint64_t rows = 0;                  // of both layers, in these
  std::optional<uint64_t> committed;  // synchronous training: the steps that it has to hold
  uint64_t job_id;
};

// A job for all executors, behind all earlier jobs.
struct ServerWork {
  uint64_t job_id;
  ExecutorJob job;

  // A request's content and sender; null: another kind of job.
  const Body* request() const {
    const auto* request = std::get_if<RequestJob>(&job);
    return request == nullptr ? nullptr : request->body.get();
  }
  Incarnation sender() const { return std::get<RequestJob>(job).sender; }
  // Null: another kind of job.
  const SlotJob* slot_job() const {
    const auto* shared = std::get_if<SharedSlotJob>(&job);
    return shared == nullptr ? nullptr : shared->get();
  }
};

// The kinds of ServerAction, beside ServerSave and ServerWork.
namespace server_action {

// The scheduler knows the server by this name from now on.
struct Rename {
  std::string name;
};

struct Log {
  Event event;
};

// The shell limits the rate of events with `by_peers`.
struct LogWarning {
  Event event;
};

struct SendToScheduler {
  Message message;
};

// An answer to a worker or to another server.
struct SendToPeer {
  PeerId peer;
  std::shared_ptr<const Bytes> bytes;  // never null
};

struct SendToServer {
  PlanServer server;
  Message message;
};

// Stops the executors and discards their state.
struct StopExecutors {};

// Starts executors for these slots in place of the present ones.
struct StartExecutors {
  std::shared_ptr<const ServerLoad> load;  // never null
};

// The store ends the save in progress with this outcome.
struct GiveUpSave {
  Error why;
};

// The server ends once all actions of the call are executed. Of several Exit actions the last
// counts.
struct Exit {
  Status outcome;
};

}  // namespace server_action

using ServerAction =
    std::variant<server_action::Rename, server_action::Log, server_action::LogWarning,
                 server_action::SendToScheduler, server_action::SendToPeer,
                 server_action::SendToServer, server_action::StopExecutors,
                 server_action::StartExecutors, ServerSave, server_action::GiveUpSave, ServerWork,
                 server_action::Exit>;

// To be executed front to back.
using ServerActions = std::vector<ServerAction>;

template <typename Kind>
bool Has(const ServerActions& actions) {
  return std::ranges::any_of(
      actions, [](const ServerAction& action) { return std::holds_alternative<Kind>(action); });
}

}  // namespace dslide
