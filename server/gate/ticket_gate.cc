#include "server/gate/ticket_gate.h"

#include <fmt/core.h>

#include "common/run/tickets.h"

namespace dslide {

// What a request says that its worker may do. Without training it may be of either kind: a worker
// greets servers with the ticket of the batch that it trains.
struct TicketGate::Claim {
  BatchId batch;
  const Bytes& ticket;
  bool may_train;
  bool may_evaluate;

  bool Fits(const VerifyKey& key, Incarnation worker) const {
    return (may_train && IsTicket(key, ticket, worker, LeaseKind::kTrain, batch)) ||
           (may_evaluate && IsTicket(key, ticket, worker, LeaseKind::kEvaluate, batch));
  }
};

std::optional<TicketGate::Claim> TicketGate::ClaimOf(const EmbedRequest& embed) {
  return Claim{embed.batch, embed.ticket, true, !embed.training};
}

std::optional<TicketGate::Claim> TicketGate::ClaimOf(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) return ClaimOf(*embed);
  if (const auto* query = std::get_if<ActiveQuery>(&request); query != nullptr && query->alone) {
    return Claim{query->batch, query->ticket, true, false};
  }
  if (const auto* top = std::get_if<TopKRequest>(&request)) {
    return Claim{top->batch, top->ticket, false, true};
  }
  return std::nullopt;
}

bool TicketGate::Begins(const Body& request) { return ClaimOf(request).has_value(); }

std::string TicketGate::Check(Incarnation worker, Body* request, const ServerSeat& seat,
                              ServerOutbox* out) {
  if (auto* push = std::get_if<EmbedPush>(request); push != nullptr && push->next) {
    if (!WhyRefused(worker, *ClaimOf(*push->next), seat, out).empty()) push->next.reset();
    return "";
  }
  const std::optional<Claim> claim = ClaimOf(*request);
  return claim ? WhyRefused(worker, *claim, seat, out) : "";
}

std::string TicketGate::WhyRefused(Incarnation worker, const Claim& claim, const ServerSeat& seat,
                                   ServerOutbox* out) {
  if (!seat.keys) return "the scheduler has not told this server yet how to check tickets";
  if (claim.Fits(seat.keys->tickets, worker)) return "";
  out->NoteOffence(Offence{worker.value, claim.batch, "sent a ticket that does not fit its batch",
                           claim.ticket});
  return fmt::format("the ticket is not of batch {}.{}.{} and this worker", claim.batch.epoch,
                     claim.batch.unit, claim.batch.index);
}

}  // namespace dslide
