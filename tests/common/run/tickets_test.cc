#include "common/run/tickets.h"

#include <doctest/doctest.h>

#include <set>

#include "common/run/slot_plan.h"
#include "tests/support/tickets.h"

namespace dslide::tickets_test {
namespace {

using testing::kTicketKey;

constexpr Incarnation kWorker{5}, kServer{9};
constexpr BatchId kBatch{1, 2, 3};

// By an implementation of its own, of the bytes that PROTOCOL.md names.
TEST_CASE("tickets and receipts: their numbers stay as they are") {
  CHECK(TicketOf(kTicketKey, kWorker, LeaseKind::kTrain, kBatch) == 0x426deef455d10413);
  CHECK(TicketOf(kTicketKey, kWorker, LeaseKind::kEvaluate, kBatch) == 0xaf30dd6432329e1d);
  CHECK(ReceiptOf(kTicketKey, kServer, kWorker, 4, LeaseKind::kTrain, kBatch) ==
        0x6e1a8f1a5d121657);
}

TEST_CASE("tickets: another worker, batch, kind or key has another one") {
  std::set<uint64_t> tickets;
  HashKey other_key = kTicketKey;
  other_key[15]++;
  for (const HashKey& key : {kTicketKey, other_key}) {
    for (const Incarnation worker : {kWorker, Incarnation{6}}) {
      for (const LeaseKind kind : {LeaseKind::kTrain, LeaseKind::kEvaluate}) {
        for (const BatchId& batch : {kBatch, {2, 2, 3}, {1, 3, 3}, {1, 2, 4}}) {
          tickets.insert(TicketOf(key, worker, kind, batch));
        }
      }
    }
  }
  CHECK(tickets.size() == 32);
}

TEST_CASE("receipts: those of the servers at which a batch ends, by a plan") {
  ClusterConfig cluster;
  cluster.slots = 4;
  cluster.input_slots = 2;
  Plan plan = EqualPlan(7, 4, {{"a", "a", {1}}, {"b", "b", {2}}, {"c", "c", {3}}});
  plan.slot_owner = {0, 0, 1, 1};  // neurons, input rows; the third server has nothing
  const auto receipt = [&](uint64_t server, LeaseKind kind) {
    return ReceiptOf(kTicketKey, {server}, kWorker, 7, kind, kBatch);
  };
  CHECK(ReceiptsOf(kTicketKey, plan, cluster, kWorker, LeaseKind::kTrain, kBatch) ==
        (receipt(1, LeaseKind::kTrain) ^ receipt(2, LeaseKind::kTrain)));
  CHECK(ReceiptsOf(kTicketKey, plan, cluster, kWorker, LeaseKind::kEvaluate, kBatch) ==
        receipt(1, LeaseKind::kEvaluate));
  const uint64_t before = ReceiptsOf(kTicketKey, plan, cluster, kWorker, LeaseKind::kTrain, kBatch);
  plan.version = 8;
  CHECK(ReceiptsOf(kTicketKey, plan, cluster, kWorker, LeaseKind::kTrain, kBatch) != before);
}

}  // namespace
}  // namespace dslide::tickets_test
