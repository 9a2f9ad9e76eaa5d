// Whom the scheduler lets in and believes: the run's keys, and the lists of them that members get.
// Owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

  // The refusal of a message that is not taken.
  std::optional<ErrorReply> Check(const PublicKey& key, const Message& message,
                                  const Roster& roster) const;
  // The keys that a member needs: a server all, a worker those of servers, others none.
  std::optional<AccessList> ListFor(Role role) const;
  // Whether a member has the present list: it was sent to the connection by which the member speaks
  // now. A list to a connection that is broken is lost.
  bool Told(const Member& member) const;
  void SetTold(const Member& member) { told_[member.incarnation] = member.peer; }
  // Forgets members that have left.
  void KeepOnly(const Roster& roster);

  // Writes that the member's key does not count from now on, for any member that has it, and the
  // fingerprints of its accusers' keys. Call Refresh() next.
  void Quarantine(Incarnation member, std::vector<uint32_t> accusers, int64_t now_s);
  // The members whose keys do not count any more.
  std::vector<Incarnation> Outcasts(const Roster& roster) const;

 private:
  AccessList Valid(int64_t now_s) const;

  RunKeys keys_;
  AccessListHolder holder_;
  AccessList valid_;
  std::set<std::string> unwritten_;     // keys in quarantine that could not be written to the ring
  std::map<Incarnation, PeerId> told_;  // who has the present list, and by which connection
};

}  // namespace dslide
