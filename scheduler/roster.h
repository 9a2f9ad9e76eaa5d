// Who takes part: servers, workers and observers, by incarnation.
//
// A member is known by its incarnation, not by its connection: when a connection breaks and comes
// back, the next message carries the same incarnation from a new peer id. Any message proves
// liveness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/net/messages.h"
#include "common/net/socket.h"

namespace dslide {

struct Member {
  Incarnation incarnation;
  PeerId peer;
  Role role = Role::kWorker;
  std::string name;
  std::string address;  // servers
  uint32_t cores = 0;
  int64_t heard_ms = 0;
  bool ready = false;                      // servers: slots are loaded
  std::optional<uint64_t> committed = {};  // servers: steps, none before the first answer
  Heartbeat heartbeat;                     // the latest
  uint64_t samples = 0;                    // workers: trained
};

class Roster {
 public:
  // Adds a member, or finds it again by its incarnation. The name is made unique ("worker",
  // "worker-2").
  Member& Add(const Join& join, Incarnation incarnation, const PeerId& peer, int64_t now_ms);

  // Notes life and the current peer id; nullptr for a stranger.
  Member* Heard(Incarnation incarnation, const PeerId& peer, int64_t now_ms);

  const Member* Find(Incarnation incarnation) const;  // nullptr for a stranger

  // Removes a member and remembers what it used.
  void Remove(Incarnation incarnation);

  size_t Count(Role role) const;
  std::vector<const Member*> Of(Role role) const;  // in order of joining
  // Members of a role not heard of for longer than `silence_ms`.
  std::vector<const Member*> Silent(Role role, int64_t now_ms, int64_t silence_ms) const;

  // Over all members, those who left included.
  double cpu_seconds() const;
  uint64_t peak_rss_bytes() const;

 private:
  std::map<Incarnation, Member> members_;
  std::vector<Incarnation> order_;
  double departed_cpu_seconds_ = 0;
  uint64_t departed_rss_bytes_ = 0;
};

}  // namespace dslide
