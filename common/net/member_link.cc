#include "common/net/member_link.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/plural.h"
#include "common/log/events.h"
#include "common/log/log.h"

namespace dslide {

Result<DealerSocket> DialMember(NetContext& context, const AccessListHolder& access,
                                const SchedulerAccess& scheduler, const PlanServer& server) {
  if (!scheduler.curve) return DealerSocket::Connect(context, server.address);
  const std::optional<PublicKey> key = access.KeyOf(server.incarnation);
  if (!key || access.RoleOf(*key) != KeyRole::kServer) {
    return Failed(fmt::format("the key of {} is not known", server.name));
  }
  return DealerSocket::Connect(context, server.address, CurvePeer{scheduler.curve->own, *key});
}

Status SchedulerRefusal(const HandshakeFailure& failure, const SchedulerAccess& scheduler) {
  constexpr int64_t kListMs = 2500;  // a key that was just allowed is known after a second
  constexpr int64_t kPatienceMs = 8000;
  if (failure.refused) {
    if (failure.for_ms < kListMs) return {};
    return BadInput(
        fmt::format("the scheduler at {} does not let the key {} in: it is not known there, "
                    "revoked or expired; "
                    "ask for another one (dslide key allow)",
                    scheduler.address, ShortTextOf(scheduler.curve->own.public_key)));
  }
  const std::string why = fmt::format(
      "{} ends connections before they are ready: {}", scheduler.address,
      scheduler.curve ? "the key or join string given here is for another run or mistyped, or the "
                        "scheduler has no encryption"
                      : "it may want a key (--key FILE or a join string), or be no scheduler");
  if (failure.for_ms >= kPatienceMs && !failure.had_connected) return TryLater(why);
  if (failure.in_row == 1) LogWarning({event::kHandshakeFailed, why + "; trying again"});
  return {};
}

void WarnOfRefusals(NetContext* context, LineLimit* limit, int64_t now_ms) {
  const auto warn = [limit, now_ms](Event line) {
    if (const auto admitted = limit->Admit(std::move(line), now_ms)) LogWarning(*admitted);
  };
  if (const Closings closings = context->TakeClosings(); closings.count > 0) {
    warn({event::kConnectionClosed,
          fmt::format("{} shut down, the last from {}", Plural(closings.count, "connection"),
                      closings.last),
          {{"connections", closings.count}}});
  }
  const Refusals refusals = context->TakeRefusals();
  if (refusals.count == 0) return;
  warn({event::kConnectionRefused,
        fmt::format("{} refused{}", Plural(refusals.count, "connection"),
                    refusals.last_key ? ", the last with the key " + ShortTextOf(*refusals.last_key)
                                      : std::string()),
        {{"connections", refusals.count}}});
}

}  // namespace dslide
