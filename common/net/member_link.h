// What the shells of members do with their links, encrypted or not.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/log/line_limit.h"
#include "common/net/access_list.h"
#include "common/net/socket.h"
#include "common/security/member_key.h"
#include "common/wire/messages.h"

namespace dslide {

// Dials a server of the plan: where the scheduler is dialled by keys, by its own key and that of
// the server. Errors name the server: one whose key is not known is not dialled.
Result<DealerSocket> DialMember(NetContext& context, const AccessListHolder& access,
                                const SchedulerAccess& scheduler, const PlanServer& server);

// The error that ends a member after a failed handshake with the scheduler: a key that is not let
// in for some seconds (kBadInput), or many failures in a row of a member that has never been
// connected (kTryLater). None if another try may succeed; the first failure in a row is logged
// then.
Status SchedulerRefusal(const HandshakeFailure& failure, const SchedulerAccess& scheduler);

// Logs the connections that a context has not let in or has shut down.
void WarnOfRefusals(NetContext* context, LineLimit* limit, int64_t now_ms);

}  // namespace dslide
