// The intruder's path: every way into an encrypted cluster that must be closed.
#include <fmt/core.h>

#include "common/base/process.h"
#include "tests/attacks/intruder.h"

namespace dslide::key_attacks {
namespace {

// Whatever anybody could want of the scheduler and of servers.
std::vector<Body> Everything(const Target& target) {
  std::vector<Body> all = {
      Join(),           Heartbeat(),
      LeaseRequest(),   BatchDone(),
      Ready(),          CheckpointNow(),
      CheckpointDone(), StepsCommitted(),
      MoveReady(),      AuditReport(),
      StatusRequest(),  Leave(),
      EmbedRequest(),   DropBatches{target.workers.empty() ? Incarnation() : target.workers[0]},
      CommitSteps{1},   Shutdown{"eve", 0}};
  all.push_back(DrainServer{"server-1"});
  return all;
}

// Knocks with all messages, at the scheduler and at the servers. Whoever has no counting key must
// not be heard by anybody.
void Knock(Strike& strike) {
  uint64_t answers = 0, sent = 0;
  while (strike.Goes()) {
    Intruder eve(&strike);
    for (const Body& body : Everything(strike.target())) {
      eve.Tell(body);
      for (size_t s = 0; s < strike.target().servers.size(); ++s) eve.TellServer(s, body);
      sent++;
    }
    for (int i = 0; i < 12 && strike.Goes(); ++i) eve.Receive(50);
    answers += eve.received();
  }
  strike.Say(fmt::format("{} messages, {} answers", sent, answers));
  if (answers > 0) strike.Breach("somebody answered who has no counting key");
}

// A key of one role tries to join as each other one.
void WrongRole(Strike& strike) {
  const Role own = strike.attack().as == As::kServer   ? Role::kServer
                   : strike.attack().as == As::kWorker ? Role::kWorker
                                                       : Role::kObserver;
  for (const Role role : {Role::kServer, Role::kWorker, Role::kObserver}) {
    if (role == own) continue;
    Intruder eve(&strike);
    if (eve.Join(role)) strike.Breach(fmt::format("joined as role {}", static_cast<int>(role)));
    strike.Say(eve.why());
  }
}

// The incarnation of a life that has left goes on talking.
void StaleIncarnation(Strike& strike) {
  Intruder eve(&strike);
  if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
  eve.set_beats(false);
  eve.Tell(Leave());
  eve.Receive(300);
  for (const Body& body : {Body(Heartbeat()), Body(LeaseRequest()), Body(BatchDone())}) {
    const std::string refusal = eve.Refusal(body);
    if (refusal.empty()) strike.Breach("a life that has left is answered");
  }
  EmbedRequest request;
  request.training = true;
  for (int i = 0; i < 32; ++i) request.features.EndRow();
  const auto answer = eve.AskServer(0, request);
  if (answer && std::holds_alternative<EmbedReply>(*answer)) {
    strike.Breach("a server answers a worker's life that has left");
  }
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"keys.none", As::kNobody, "plaintext connections to an encrypted cluster", Knock,
       on::kQuick},
      {"keys.wrong", As::kWrongKey, "a key that nobody has allowed", Knock},
      {"keys.revoked", As::kRevoked, "a key that was allowed and taken back", Knock, on::kQuick},
      {"keys.expired", As::kExpired, "a key whose time is over", Knock},
      {"keys.rotated", As::kRotated, "a key that another one has replaced", Knock, on::kQuick},
      {"keys.role-of-observer", As::kObserver, "an observer joins as worker and as server",
       WrongRole},
      {"keys.role-of-worker", As::kWorker, "a worker joins as server and as observer", WrongRole},
      {"keys.role-of-server", As::kServer, "a server joins as worker and as observer", WrongRole},
      {"keys.stale-life", As::kWorker, "a life that has left asks for leases and trains",
       StaleIncarnation, on::kQuick},
  };
}

}  // namespace dslide::key_attacks
