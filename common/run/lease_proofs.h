// Tickets and receipts: a ticket shows a server that the scheduler has leased a batch to a worker,
// a receipt shows the scheduler that a server has carried out a batch of a worker (section 16 of
// schema/PROTOCOL.md). Workers carry them from one side to the other.
//
// A ticket is the scheduler's signature, by a key that each incarnation of the scheduler draws. A
// server has the key that checks tickets, which cannot make tickets. A receipt is a hash under a
// key that the scheduler derives for one server and tells to that server alone. So nothing that a
// server has been told speaks for the scheduler, or for another server. All functions are pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/security/keyed_hash.h"
#include "common/security/signature.h"
#include "common/wire/messages.h"

namespace dslide {

// The keys by which a server checks tickets and makes its receipts; the scheduler tells it both.
struct ServerKeys {
  VerifyKey tickets;
  HashKey receipts = {};

  static std::optional<ServerKeys> In(const JoinReply& reply);  // none: it tells none
  void PutInto(JoinReply* reply) const;
  bool operator==(const ServerKeys&) const = default;
};

// The keys that an incarnation of the scheduler draws. No other process may know them.
struct SchedulerKeys {
  SigningKey tickets = {};
  HashKey receipts = {};

  static SchedulerKeys Draw() { return {SigningKey::Draw(), DrawHashKey()}; }
  ServerKeys Of(Incarnation server) const;
};

// The part of the reply to the last request of a batch that the worker passes on to the scheduler.
struct BatchProof {
  uint64_t receipt = 0;  // 0: without a receipt
  double loss_part = 0;  // that the receipt proves

  static BatchProof In(const Envelope& envelope) { return {envelope.receipt, envelope.loss_part}; }
  void PutInto(Envelope* envelope) const;
};

// The ticket of a batch in a lease. It holds as long as the scheduler and the worker live.
Bytes TicketOf(const SigningKey& key, Incarnation worker, LeaseKind kind, const BatchId& batch);
bool IsTicket(const VerifyKey& key, const Bytes& ticket, Incarnation worker, LeaseKind kind,
              const BatchId& batch);

// The key of a server's receipts, from the scheduler's secret: SipHash-2-4 in counter mode.
HashKey ReceiptKeyOf(const HashKey& secret, Incarnation server);

// The loss part in a receipt of a server that does not know its part of the batch's loss.
constexpr double kUnknownLossPart = std::numeric_limits<double>::max();

// The receipt for the last request of a batch, which the server with this key has carried out by
// plan `plan_version`. `loss_part`: the server's part of the batch's loss in training; else 0.
uint64_t ReceiptOf(const HashKey& receipt_key, Incarnation server, Incarnation worker,
                   uint32_t plan_version, LeaseKind kind, const BatchId& batch, double loss_part);

// [plan.servers] Which servers give a receipt of a batch: those with neurons, in training also
// those with input rows.
std::vector<bool> GivesReceipt(const Plan& plan, const ClusterConfig& cluster, LeaseKind kind);

// Reports what the servers have proved, of those that give a receipt. `proofs`: [plan.servers].
void ReportProofs(const std::vector<BatchProof>& proofs, const Plan& plan,
                  const ClusterConfig& cluster, LeaseKind kind, BatchDone* done);

// The receipts that a worker has when it has done a batch by a plan, of the servers that give one,
// in their order. `secret`: the scheduler's. `loss_parts`: of the same servers; none: all 0.
std::vector<uint64_t> ReceiptsOf(const HashKey& secret, const Plan& plan,
                                 const ClusterConfig& cluster, Incarnation worker, LeaseKind kind,
                                 const BatchId& batch, std::span<const double> loss_parts);

}  // namespace dslide
