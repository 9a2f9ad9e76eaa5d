// Who may begin a batch at this server: a worker with the scheduler's ticket for it
// (common/run/tickets.h). Nothing is kept of requests that have none.
//
// Pure; owned by the network thread.
#pragma once

#include <optional>
#include <string>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"

namespace dslide {

class TicketGate {
 public:
  // Whether a request begins a batch by itself; what its EmbedPush.next begins is not meant.
  static bool Begins(const Body& request);

  // Why a request may not begin what it begins; empty: it may, or begins nothing. A push may go on
  // without the next batch, which is taken out. A ticket that does not fit is an offence.
  static std::string Check(Incarnation worker, Body* request, const ServerSeat& seat,
                           ServerOutbox* out);

 private:
  struct Claim;
  static std::optional<Claim> ClaimOf(const EmbedRequest& embed);
  static std::optional<Claim> ClaimOf(const Body& request);
  static std::string WhyRefused(Incarnation worker, const Claim& claim, const ServerSeat& seat,
                                ServerOutbox* out);
};

}  // namespace dslide
