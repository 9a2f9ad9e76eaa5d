#include "server/gate/lease_gate.h"

#include <fmt/core.h>

#include "common/base/overloaded.h"
#include "common/run/batch_number.h"
#include "common/run/lease_proofs.h"
#include "common/run/slot_plan.h"
#include "common/run/slot_rows.h"
#include "server/gate/request_bytes.h"

namespace dslide {
namespace {

// A request's claim about its lease. A request without training may have a ticket of either kind: a
// worker greets servers with the ticket of the batch that it trains.
struct Claim {
  BatchId batch;
  const Bytes& ticket;
  bool may_train;
  bool may_evaluate;

  bool Fits(const VerifyKey& key, Incarnation worker) const {
    return (may_train && IsTicket(key, ticket, worker, LeaseKind::kTrain, batch)) ||
           (may_evaluate && IsTicket(key, ticket, worker, LeaseKind::kEvaluate, batch));
  }
};

std::optional<Claim> ClaimOf(const EmbedRequest& embed) {
  return Claim{embed.batch, embed.ticket, true, !embed.training};
}

std::optional<Claim> ClaimOf(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) return ClaimOf(*embed);
  if (const auto* query = std::get_if<ActiveQuery>(&request); query != nullptr && query->alone) {
    return Claim{query->batch, query->ticket, true, false};
  }
  if (const auto* top = std::get_if<TopKRequest>(&request)) {
    return Claim{top->batch, top->ticket, false, true};
  }
  return std::nullopt;
}

std::string WhyRefused(Incarnation worker, const Claim& claim, const ServerSeat& seat,
                       ServerOutbox* out) {
  if (!seat.keys) return "the scheduler has not told this server yet how to check tickets";
  if (claim.Fits(seat.keys->tickets, worker)) return "";
  out->NoteOffence(Offence{worker.value, claim.batch, "sent a ticket that does not fit its batch",
                           claim.ticket});
  return fmt::format("the ticket is not of {} and this worker", NameOf(claim.batch));
}

}  // namespace

bool LeaseGate::Begins(const Body& request) { return ClaimOf(request).has_value(); }

std::string LeaseGate::Check(Incarnation worker, Body* request, const ServerSeat& seat,
                             ServerOutbox* out) {
  if (auto* push = std::get_if<EmbedPush>(request); push != nullptr && push->next) {
    if (!WhyRefused(worker, *ClaimOf(*push->next), seat, out).empty()) push->next.reset();
    return "";
  }
  const std::optional<Claim> claim = ClaimOf(*request);
  return claim ? WhyRefused(worker, *claim, seat, out) : "";
}

std::optional<BatchEnd> LeaseGate::EndOf(const Body& request, const ServerSeat& seat) {
  const auto has = [&](SlotRange slots) -> bool {
    return ServersWith(seat.plan, slots)[*seat.index];
  };
  const ClusterConfig& cluster = seat.config.cluster;
  const auto end_of = [&](LeaseKind kind, const BatchId& batch) -> std::optional<BatchEnd> {
    return BatchEnd{kind, batch, seat.plan.version, has(OutputSlots(cluster))};
  };
  // A server with input rows ends a batch with their gradients, another one with those of neurons.
  const auto trained = [&](const BatchId& batch, bool of_features) -> std::optional<BatchEnd> {
    if (has(InputSlots(cluster)) != of_features) return std::nullopt;
    return end_of(LeaseKind::kTrain, batch);
  };
  using End = std::optional<BatchEnd>;
  return std::visit(
      Overloaded{
          [&](const TopKRequest& top) { return end_of(LeaseKind::kEvaluate, top.batch); },
          [&](const GradientPush& push) { return trained(push.batch, false); },
          [&](const EmbedPush& push) { return trained(push.batch, true); },
          [&](const ActiveQuery& query) {
            return query.finish ? trained(query.batch, false) : End();
          },
          [](const auto&) -> End { return std::nullopt; },
      },
      request);
}

void LeaseGate::Prove(const ServerSeat& seat, LossBook* losses, Asker* asker) {
  if (!asker->ends || !seat.keys) return;
  const BatchEnd& end = *asker->ends;
  BatchProof& proof = asker->proof;
  if (end.kind == LeaseKind::kTrain && end.has_neurons) {
    proof.loss_part = losses->PartOf(asker->incarnation, end.batch).value_or(kUnknownLossPart);
    losses->Forget(asker->incarnation, end.batch);
  }
  proof.receipt = ReceiptOf(seat.keys->receipts, seat.self, asker->incarnation, end.plan_version,
                            end.kind, end.batch, proof.loss_part);
}

}  // namespace dslide
