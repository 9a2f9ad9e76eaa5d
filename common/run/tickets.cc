#include "common/run/tickets.h"

#include <bit>
#include <vector>

#include "common/run/slot_plan.h"

namespace dslide {
namespace {

enum class Purpose : uint8_t { kTicket = 1, kReceipt = 2 };

// What is hashed: 40 bytes, numbers little-endian.
struct Statement {
  Statement(Purpose purpose, LeaseKind kind, const BatchId& of)
      : what(static_cast<uint64_t>(purpose) | static_cast<uint64_t>(kind) << 8),
        epoch(of.epoch),
        unit(of.unit),
        index(of.index) {}

  uint64_t what;
  uint64_t server = 0;
  uint64_t worker = 0;
  uint32_t epoch, unit, index;
  uint32_t plan_version = 0;
};
static_assert(sizeof(Statement) == 40);
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint64_t TicketOf(const HashKey& key, Incarnation worker, LeaseKind kind, const BatchId& batch) {
  Statement statement(Purpose::kTicket, kind, batch);
  statement.worker = worker.value;
  return KeyedHash(key, &statement, sizeof(statement));
}

uint64_t ReceiptOf(const HashKey& key, Incarnation server, Incarnation worker,
                   uint32_t plan_version, LeaseKind kind, const BatchId& batch) {
  Statement statement(Purpose::kReceipt, kind, batch);
  statement.server = server.value;
  statement.worker = worker.value;
  statement.plan_version = plan_version;
  return KeyedHash(key, &statement, sizeof(statement));
}

uint64_t ReceiptsOf(const HashKey& key, const Plan& plan, const ClusterConfig& cluster,
                    Incarnation worker, LeaseKind kind, const BatchId& batch) {
  std::vector<bool> ends_at = ServersWith(plan, OutputSlots(cluster));
  if (kind == LeaseKind::kTrain) {
    const std::vector<bool> with_input = ServersWith(plan, InputSlots(cluster));
    for (size_t i = 0; i < ends_at.size(); ++i) ends_at[i] = ends_at[i] || with_input[i];
  }
  uint64_t receipts = 0;
  for (size_t i = 0; i < ends_at.size(); ++i) {
    if (!ends_at[i]) continue;
    receipts ^= ReceiptOf(key, plan.servers[i].incarnation, worker, plan.version, kind, batch);
  }
  return receipts;
}

}  // namespace dslide
