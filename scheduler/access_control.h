// Whom the scheduler lets in and believes: the run's keys, and the lists of them that members get.
// Owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/net/access_list.h"
#include "common/security/run_keys.h"
#include "common/wire/messages.h"
#include "scheduler/members/roster.h"

namespace dslide {

class AccessControl {
 public:
  AccessControl(RunKeys keys, int64_t now_s);

  // Of a key that has joined; "" if it does not count any more.
  std::string NameOf(const PublicKey& key) const;
  const KeyPair& own() const { return keys_.scheduler(); }
  RunKeys& keys() { return keys_; }
  const AccessListHolder& holder() const { return holder_; }

  // Looks whether keys came, went or expired; REQUIRES to be called about once a second. True: the
  // members need new lists. A file that cannot be read is logged, and what was read before holds.
  bool Refresh(int64_t now_s);

  // The refusal of a message that is not taken. Remembers the connection of a member that joins.
  std::optional<ErrorReply> Check(const PeerId& peer, const PublicKey& key, const Message& message,
                                  const Roster& roster, int64_t now_s);
  // The keys that the member at a connection needs; empty: nobody has joined there.
  std::optional<AccessList> ListFor(const PeerId& peer) const;
  // The connections of members that have joined.
  std::vector<PeerId> Joined() const;
  void Forget(const PeerId& peer) { joined_.erase(peer); }
  // Forgets the connections of those that asked to join a while ago and are not in the roster.
  void KeepOnly(const Roster& roster, int64_t now_s);

  // Writes that the member's key does not count from now on, whoever has it. Call Refresh() next.
  void Quarantine(Incarnation member, int64_t now_s);
  // The members whose keys do not count any more.
  std::vector<Incarnation> Outcasts(const Roster& roster) const;

 private:
  AccessList Valid(int64_t now_s) const;

  RunKeys keys_;
  AccessListHolder holder_;
  AccessList valid_;
  struct Connection {
    KeyRole role = KeyRole::kObserver;
    int64_t joined_s = 0;  // when it last asked to join
  };
  std::map<PeerId, Connection> joined_;
};

}  // namespace dslide
