// Only a worker with the scheduler's ticket for a batch may begin it at this server. The reply to
// the last request of a batch gets this server's receipt (common/run/lease_proofs.h). Nothing is
// kept of requests without a ticket.
//
// Pure; owned by the network thread.
#pragma once

#include <optional>
#include <string>

#include "common/wire/messages.h"
#include "server/base/open_jobs.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"
#include "server/gate/loss_book.h"

namespace dslide {

class LeaseGate {
 public:
  // Whether a request begins a batch by itself; what its EmbedPush.next begins is not meant.
  static bool Begins(const Body& request);

  // Why a request may not begin what it begins; empty: it may, or begins nothing. A push may go on
  // without the next batch, which is taken out. A ticket that does not fit is an offence.
  static std::string Check(Incarnation worker, Body* request, const ServerSeat& seat,
                           ServerOutbox* out);

  // The batch that a request ends at this server; none: the request is not the last one.
  static std::optional<BatchEnd> EndOf(const Body& request, const ServerSeat& seat);
  // Fills in the proof of the batch that the asker's request ends, whose losses are not needed any
  // more.
  static void Prove(const ServerSeat& seat, LossBook* losses, Asker* asker);
};

}  // namespace dslide
