// Why a process may not join, or not yet. The rules are asked in order, and the first one that
// objects decides. scheduler/README.md shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/wire/messages.h"
#include "scheduler/plan/cluster.h"

namespace dslide {

// The facts about a Join that the rules look at. The references have to outlive the call only.
struct JoinCase {
  const JoinRequest& request;
  const Join& join;
  Incarnation incarnation;
  const Cluster& cluster;
  const RunContext& run;
  const Member* known = nullptr;  // in the roster; null: not a member
  bool has_seat = false;          // it is a server of the slot map
  bool departs = false;           // a server whose slots the last slot map gave to others
  bool declared_dead = false;     // servers refuse this incarnation of a worker
  std::string key;                // by which servers are barred, beside their addresses
  JoinRate* rate = nullptr;  // its rule uses up one join, so it is behind those that cost nothing
  int64_t now_ms = 0;

  bool new_server() const { return known == nullptr && join.role == Role::kServer; }
};

struct JoinRule {
  const char* when;               // in scheduler/README.md
  std::optional<ErrorCode> code;  // of the refusal; none: no answer, it asks again after a while
  bool is_decision = false;       // shown to the operator
  std::optional<std::string> (*why)(const JoinCase&);  // none: no objection
};

std::span<const JoinRule> JoinRules();

struct JoinObjection {
  const JoinRule* rule;
  std::string why;
};
std::optional<JoinObjection> ObjectionTo(const JoinCase& join);

}  // namespace dslide
