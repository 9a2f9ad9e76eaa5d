// The members of a run: servers, workers and observers, by incarnation.
//
// A member is known by its incarnation, not by its connection: when a connection breaks and comes
// back, the next message carries the same incarnation from a new peer id. Any message proves
// liveness.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "scheduler/members/failure_detector.h"

namespace dslide {

// A name from outside, made fit for terminals, logs, JSON and file names.
std::string PlainName(std::string name);

struct Member {
  Incarnation incarnation;
  PeerId peer;
  Role role = Role::kWorker;
  std::string name;
  std::string asked_name;  // a replacement asks for the name of the dead member
  std::string address;     // servers
  std::string key;         // the name of its key; empty: the run has none
  uint32_t cores = 0;
  FailureDetector life{1000, 0};
  int64_t joined_ms = 0;
  uint64_t rank = 0;                       // in order of joining
  uint64_t memory_bytes = 0;               // servers: memory limit; 0: not given
  uint64_t disk_bytes = 0;                 // servers: for rows without room there
  double memory_hits = 1;                  // servers: share of needed rows in memory, lately
  bool seated = false;                     // servers: in the plan
  bool added = false;                      // servers: came to a plan that lacked none
  bool newcomer = false;                   // servers: came to a run that had its servers
  bool draining = false;                   // servers: its slots are to move to others
  bool ready = false;                      // servers: the plan's slots are loaded
  int64_t ready_ms = 0;                    // servers: when they were
  int64_t trained_ms = 0;                  // servers: last took gradients; 0: never
  std::optional<uint64_t> committed = {};  // servers: steps, none before the first answer
  Heartbeat heartbeat;                     // the latest
  uint32_t malformed = 0;                  // messages by its connection
  uint64_t samples = 0;                    // workers: trained
  uint32_t batch_us = 0;                   // workers: longest batch last reported; 0: none yet

  PlanServer Seat() const { return {name, address, incarnation}; }
};

// CPU time and memory of the members of a role by their heartbeats, including those that left.
struct RoleUsage {
  double cpu_seconds = 0;
  uint64_t rss_bytes = 0;          // peaks, of all together
  uint64_t largest_rss_bytes = 0;  // the largest peak

  void Add(const Heartbeat& heartbeat);
};

class Roster {
 public:
  explicit Roster(int64_t heartbeat_ms) : heartbeat_ms_(heartbeat_ms) {}

  // Adds a member, or finds it again by its incarnation. The name is made unique ("worker",
  // "worker-2").
  Member& Add(const Join& join, Incarnation incarnation, const PeerId& peer, int64_t now_ms);

  // Records a sign of life and the current peer id; nullptr for a stranger.
  Member* Heard(Incarnation incarnation, const PeerId& peer, int64_t now_ms);

  // How often a member has come or gone: while it is the same, so are the members.
  uint64_t changes() const { return changes_; }

  const Member* Find(Incarnation incarnation) const;  // nullptr for a stranger
  Member* Find(Incarnation incarnation);

  // Removes a member and remembers its CPU time and memory. Its name goes to the first member that
  // asked for it.
  void Remove(Incarnation incarnation);

  size_t Count(Role role) const { return MembersOf(role).size(); }
  // The member that was heard by a connection last; nullptr: none.
  const Member* At(const PeerId& peer) const;
  // Members by one connection: a member's lives one after another, or somebody who makes members
  // up.
  size_t CountAt(const PeerId& peer) const;
  std::vector<const Member*> Of(Role role) const;  // in order of joining
  std::vector<Member*> Of(Role role) { return MembersOf(role); }
  // Servers in the plan, and servers that wait for a seat in one; draining servers do not wait.
  std::vector<const Member*> Seated() const;
  std::vector<const Member*> Spares() const;
  // All servers in the plan have its slots.
  bool AllReady() const;
  // Spares that do not stand in for a seated server. A spare stands in if it asked for that
  // server's name and the server has been silent since the spare joined.
  std::vector<const Member*> Newcomers() const;

  // Dead members: silent for too long, or suspect while a later member asked for their name (their
  // replacement).
  std::vector<const Member*> Dead(int64_t now_ms) const;

  // The longest time of a batch, from its first request to its last answer: the median over
  // workers; 0: not known. All batches in flight end within about this time.
  double BatchMs() const;
  RoleUsage Used(Role role) const;
  // Sums over all members, including those that left.
  double cpu_seconds() const;
  uint64_t peak_rss_bytes() const;

 private:
  using Members = std::vector<Member*>;  // in order of joining

  Members& MembersOf(Role role) { return by_role_[static_cast<size_t>(role)]; }
  const Members& MembersOf(Role role) const { return by_role_[static_cast<size_t>(role)]; }
  void SetPeer(Member* member, const PeerId& peer);

  int64_t heartbeat_ms_;
  std::map<Incarnation, Member> members_;
  uint64_t next_rank_ = 0;
  uint64_t changes_ = 0;
  std::array<Members, 3> by_role_;  // of members_
  std::multimap<PeerId, Incarnation> by_peer_;
  std::set<std::string> names_;  // of the members
  std::map<std::string, uint64_t>
      next_number_;                    // by base: from where a free "base-N" is looked for
  std::array<RoleUsage, 3> departed_;  // by role
};

}  // namespace dslide
