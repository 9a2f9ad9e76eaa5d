#include "common/net/permissions.h"

#include <fmt/format.h>

namespace dslide {
namespace {

template <typename... T>
bool IsOneOf(const Body& body) {
  return (std::holds_alternative<T>(body) || ...);
}

// What every member may tell the scheduler.
bool IsOfAnyMember(const Body& body) { return IsOneOf<Join, Heartbeat, Leave, Ack>(body); }

bool MayTellScheduler(KeyRole role, const Body& body) {
  if (const auto* join = std::get_if<Join>(&body)) {
    switch (role) {
      case KeyRole::kServer:
        return join->role == Role::kServer;
      case KeyRole::kWorker:
        return join->role == Role::kWorker;
      case KeyRole::kObserver:
      case KeyRole::kOperator:
        return join->role == Role::kObserver;
      case KeyRole::kScheduler:
        return false;
    }
  }
  if (IsOfAnyMember(body)) return role != KeyRole::kScheduler;
  switch (role) {
    case KeyRole::kServer:
      return IsOneOf<Ready, StepsCommitted, CheckpointDone, CheckpointNow, MoveReady, DrainServer,
                     AuditReport, Offence, ErrorReply>(body);
    case KeyRole::kWorker:
      return IsOneOf<LeaseRequest, BatchDone, ErrorReply>(body);
    case KeyRole::kObserver:
      return IsOneOf<StatusRequest>(body);
    case KeyRole::kOperator:
      return IsOneOf<StatusRequest, CheckpointNow, DrainServer>(body);
    case KeyRole::kScheduler:
      return false;
  }
  return false;
}

bool MayTellServer(KeyRole role, const Body& body) {
  switch (role) {
    case KeyRole::kServer:
      return IsOneOf<SlotPull>(body);
    case KeyRole::kWorker:
      return IsOneOf<EmbedRequest, ActiveQuery, GradientPush, EmbedPush, TopKRequest>(body);
    case KeyRole::kScheduler:
    case KeyRole::kObserver:
    case KeyRole::kOperator:
      return IsOneOf<StatusRequest>(body);
  }
  return false;
}

}  // namespace

std::string WhyForbidden(KeyRole role, const Body& body, Receiver receiver) {
  const bool allowed =
      receiver == Receiver::kScheduler ? MayTellScheduler(role, body) : MayTellServer(role, body);
  if (allowed) return "";
  const auto* join = std::get_if<Join>(&body);
  if (receiver == Receiver::kScheduler && join != nullptr) {
    constexpr std::string_view kRoles[] = {"server", "worker", "observer"};
    return fmt::format("a key of role {} may not join as {}", NameOf(role),
                       kRoles[static_cast<size_t>(join->role)]);
  }
  return fmt::format("a key of role {} may not send {} to {}", NameOf(role), BodyName(body),
                     receiver == Receiver::kScheduler ? "the scheduler" : "a server");
}

}  // namespace dslide
