#include "common/run/lease_proofs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "common/run/slot_plan.h"

namespace dslide {
namespace {

enum class Purpose : uint8_t { kTicket = 1, kReceipt = 2, kReceiptKey = 3 };

// The bytes that are signed or hashed: 40, numbers little-endian.
struct Statement {
  explicit Statement(Purpose purpose) : what(static_cast<uint64_t>(purpose)) {}
  Statement(Purpose purpose, LeaseKind kind, const BatchId& of)
      : what(static_cast<uint64_t>(purpose) | static_cast<uint64_t>(kind) << 8),
        epoch(of.epoch),
        unit(of.unit),
        index(of.index) {}

  uint64_t what;
  uint64_t server = 0;
  uint64_t worker = 0;
  uint32_t epoch = 0, unit = 0, index = 0;
  uint32_t plan_version = 0;
};
static_assert(sizeof(Statement) == 40);
static_assert(std::endian::native == std::endian::little);

Statement TicketStatement(Incarnation worker, LeaseKind kind, const BatchId& batch) {
  Statement statement(Purpose::kTicket, kind, batch);
  statement.worker = worker.value;
  return statement;
}

}  // namespace

void ServerKeys::PutInto(JoinReply* reply) const {
  reply->verify_key.assign(tickets.bytes.begin(), tickets.bytes.end());
  reply->receipt_key.assign(receipts.begin(), receipts.end());
}

std::optional<ServerKeys> ServerKeys::In(const JoinReply& reply) {
  ServerKeys keys;
  if (reply.verify_key.size() != keys.tickets.bytes.size() ||
      reply.receipt_key.size() != keys.receipts.size()) {
    return std::nullopt;
  }
  std::ranges::copy(reply.verify_key, keys.tickets.bytes.begin());
  std::ranges::copy(reply.receipt_key, keys.receipts.begin());
  return keys;
}

ServerKeys SchedulerKeys::Of(Incarnation server) const {
  return {tickets.verify_key(), ReceiptKeyOf(receipts, server)};
}

void BatchProof::PutInto(Envelope* envelope) const {
  envelope->receipt = receipt;
  envelope->loss_part = loss_part;
}

Bytes TicketOf(const SigningKey& key, Incarnation worker, LeaseKind kind, const BatchId& batch) {
  const Statement statement = TicketStatement(worker, kind, batch);
  const Signature signature = key.Sign(&statement, sizeof(statement));
  return Bytes(signature.begin(), signature.end());
}

bool IsTicket(const VerifyKey& key, const Bytes& ticket, Incarnation worker, LeaseKind kind,
              const BatchId& batch) {
  const Statement statement = TicketStatement(worker, kind, batch);
  return IsSignedBy(key, &statement, sizeof(statement), ticket);
}

HashKey ReceiptKeyOf(const HashKey& secret, Incarnation server) {
  Statement statement(Purpose::kReceiptKey);
  statement.server = server.value;
  HashKey key;
  for (uint32_t half = 0; half < 2; ++half) {
    statement.index = half;
    const uint64_t hash = KeyedHash(secret, &statement, sizeof(statement));
    std::memcpy(key.data() + half * sizeof(hash), &hash, sizeof(hash));
  }
  return key;
}

uint64_t ReceiptOf(const HashKey& receipt_key, Incarnation server, Incarnation worker,
                   uint32_t plan_version, LeaseKind kind, const BatchId& batch, double loss_part) {
  struct {
    Statement statement;
    double loss_part;
  } receipt{Statement(Purpose::kReceipt, kind, batch), loss_part};
  static_assert(sizeof(receipt) == 48);
  receipt.statement.server = server.value;
  receipt.statement.worker = worker.value;
  receipt.statement.plan_version = plan_version;
  return KeyedHash(receipt_key, &receipt, sizeof(receipt));
}

std::vector<bool> GivesReceipt(const Plan& plan, const ClusterConfig& cluster, LeaseKind kind) {
  std::vector<bool> gives = ServersWith(plan, OutputSlots(cluster));
  if (kind != LeaseKind::kTrain) return gives;
  const std::vector<bool> with_input = ServersWith(plan, InputSlots(cluster));
  for (size_t i = 0; i < gives.size(); ++i) gives[i] = gives[i] || with_input[i];
  return gives;
}

void ReportProofs(const std::vector<BatchProof>& proofs, const Plan& plan,
                  const ClusterConfig& cluster, LeaseKind kind, BatchDone* done) {
  const std::vector<bool> gives = GivesReceipt(plan, cluster, kind);
  for (size_t i = 0; i < gives.size(); ++i) {
    if (!gives[i]) continue;
    done->receipts.push_back(proofs[i].receipt);
    if (kind == LeaseKind::kTrain) done->loss_parts.push_back(proofs[i].loss_part);
  }
}

std::vector<uint64_t> ReceiptsOf(const HashKey& secret, const Plan& plan,
                                 const ClusterConfig& cluster, Incarnation worker, LeaseKind kind,
                                 const BatchId& batch, std::span<const double> loss_parts) {
  const std::vector<bool> gives = GivesReceipt(plan, cluster, kind);
  std::vector<uint64_t> receipts;
  for (size_t i = 0; i < gives.size(); ++i) {
    if (!gives[i]) continue;
    const double part = receipts.size() < loss_parts.size() ? loss_parts[receipts.size()] : 0;
    const Incarnation server = plan.servers[i].incarnation;
    receipts.push_back(
        ReceiptOf(ReceiptKeyOf(secret, server), server, worker, plan.version, kind, batch, part));
  }
  return receipts;
}

}  // namespace dslide
