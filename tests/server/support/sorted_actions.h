// The actions of a call of ServerCore by kind, each kind in its order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/overloaded.h"
#include "server/core/server_core.h"

namespace dslide {

struct SortedActions {
  std::string name;  // the new one; empty: as before
  std::vector<Event> notices, warnings;
  std::vector<Message> to_scheduler;
  std::vector<std::pair<PeerId, std::shared_ptr<const Bytes>>> to_workers;
  std::vector<std::pair<PlanServer, Message>> to_servers;
  std::vector<ServerWork> work;
  bool unload = false;
  std::optional<ServerLoad> load;
  std::optional<ServerSave> save;
  std::optional<Error> give_up_save;
  std::optional<Status> exit;

  SortedActions() = default;
  SortedActions(ServerActions actions) {  // NOLINT: converts
    for (ServerAction& action : actions) {
      std::visit(
          Overloaded{
              [&](server_action::Log& one) { notices.push_back(std::move(one.event)); },
              [&](server_action::LogWarning& one) { warnings.push_back(std::move(one.event)); },
              [&](server_action::SendToScheduler& one) {
                to_scheduler.push_back(std::move(one.message));
              },
              [&](server_action::SendToPeer& one) {
                to_workers.emplace_back(std::move(one.peer), std::move(one.bytes));
              },
              [&](server_action::SendToServer& one) {
                to_servers.emplace_back(std::move(one.server), std::move(one.message));
              },
              [&](ServerWork& one) { work.push_back(std::move(one)); },
              [&](server_action::StopExecutors&) { unload = true; },
              [&](server_action::StartExecutors& one) { load = *one.load; },
              [&](ServerSave& one) { save = std::move(one); },
              [&](server_action::GiveUpSave& one) { give_up_save = std::move(one.why); },
              [&](server_action::Exit& one) { exit = std::move(one.outcome); },
              [&](server_action::Rename& one) { name = std::move(one.name); },
          },
          action);
    }
  }
};

// A ServerCore whose calls return SortedActions.
class TestedServerCore : public ServerCore {
 public:
  using ServerCore::ServerCore;

  SortedActions Start(int64_t now_ms) { return ServerCore::Start(now_ms); }
  SortedActions HandleScheduler(Message message, int64_t now_ms) {
    return ServerCore::HandleScheduler(std::move(message), now_ms);
  }
  SortedActions HandleServer(Message message, int64_t now_us) {
    return ServerCore::HandleServer(std::move(message), now_us);
  }
  SortedActions HandleWorker(const PeerId& peer, Message message, int64_t now_us) {
    return ServerCore::HandleWorker(peer, std::move(message), now_us);
  }
  SortedActions HandleMalformed(const PeerId& peer, const Error& error, int64_t now_ms) {
    return ServerCore::HandleMalformed(peer, error, now_ms);
  }
  SortedActions HandleSaved(uint64_t job_id, CheckpointDone done, int64_t now_ms,
                            bool lost = true) {
    return ServerCore::HandleSaved(job_id, std::move(done), now_ms, lost);
  }
  SortedActions RequestStop(int64_t now_ms) { return ServerCore::RequestStop(now_ms); }
  SortedActions HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us) {
    return ServerCore::HandleOutcome(std::move(outcome), now_us);
  }
  SortedActions Tick(const Heartbeat& usage, int64_t now_ms) {
    return ServerCore::Tick(usage, now_ms);
  }
  SortedActions Goodbye(const Heartbeat& usage) { return ServerCore::Goodbye(usage); }
};

}  // namespace dslide
