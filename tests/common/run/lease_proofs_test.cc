#include "common/run/lease_proofs.h"

#include <doctest/doctest.h>

#include <set>

#include "common/run/slot_plan.h"
#include "tests/support/hex.h"
#include "tests/support/tickets.h"

namespace dslide::lease_proofs_test {
namespace {

using testing::Hex;
using testing::kReceiptKey;
using testing::TicketKey;

constexpr Incarnation kWorker{5}, kServer{9};
constexpr BatchId kBatch{1, 2, 3};

// By other implementations (pyca/cryptography, and one of SipHash), of the bytes that PROTOCOL.md
// names.
TEST_CASE("tickets and receipts: their bytes stay as they are") {
  CHECK(Hex(TicketOf(TicketKey(), kWorker, LeaseKind::kTrain, kBatch)) ==
        "a9ea68b0e3190e654499ba07f1076dd667d1d65b5539cb1e7f7e4df7b6ef3fdd"
        "8a449bebf5ad7f6ac4627ec6a5bbcd849b7d51f84b978c104a58ff058ec68f02");
  CHECK(Hex(TicketOf(TicketKey(), kWorker, LeaseKind::kEvaluate, kBatch)) ==
        "58ff19bf7f4bf03fe10233646518968c42df2f60e121a1048a4ae13a99b378e5"
        "3b2017b191b5d74b6d619ddb43a1eb5d1ffd3f405390348bbfd73b144657a602");
  CHECK(ReceiptOf(kReceiptKey, kServer, kWorker, 4, LeaseKind::kTrain, kBatch, 2.5) ==
        0x5af0a68cc008ac77);
  const HashKey own = ReceiptKeyOf(kReceiptKey, kServer);
  CHECK(Hex(own) == "98b6c2114be98003fd90465d4f28f4df");
}

TEST_CASE("tickets: another worker, batch, kind or key has another one") {
  const SigningKey other_key = SigningKey::FromSeed({1, 2, 3, 4, 5, 6, 7, 9});
  std::set<Bytes> tickets;
  for (const SigningKey* key : {&TicketKey(), &other_key}) {
    for (const Incarnation worker : {kWorker, Incarnation{6}}) {
      for (const LeaseKind kind : {LeaseKind::kTrain, LeaseKind::kEvaluate}) {
        for (const BatchId& batch : {kBatch, {2, 2, 3}, {1, 3, 3}, {1, 2, 4}}) {
          const Bytes ticket = TicketOf(*key, worker, kind, batch);
          tickets.insert(ticket);
          CHECK(IsTicket(key->verify_key(), ticket, worker, kind, batch));
          const bool is_first = tickets.size() == 1;
          CHECK(IsTicket(TicketKey().verify_key(), ticket, kWorker, LeaseKind::kTrain, kBatch) ==
                is_first);
        }
      }
    }
  }
  CHECK(tickets.size() == 32);
}

TEST_CASE("tickets: no bytes but the signature's are one") {
  const Bytes ticket = TicketOf(TicketKey(), kWorker, LeaseKind::kTrain, kBatch);
  const auto fits = [](const Bytes& bytes) {
    return IsTicket(TicketKey().verify_key(), bytes, kWorker, LeaseKind::kTrain, kBatch);
  };
  CHECK(fits(ticket));
  CHECK_FALSE(fits({}));
  CHECK_FALSE(fits(Bytes(64)));
  CHECK_FALSE(fits(Bytes(ticket.begin(), ticket.end() - 1)));
  Bytes longer = ticket;
  longer.push_back(0);
  CHECK_FALSE(fits(longer));
  for (size_t i = 0; i < ticket.size(); ++i) {
    Bytes changed = ticket;
    changed[i] ^= 1;
    CHECK_FALSE(fits(changed));
  }
}

TEST_CASE("receipts: each server has a key of its own") {
  std::set<HashKey> keys;
  for (uint64_t server = 0; server < 100; ++server) {
    keys.insert(ReceiptKeyOf(kReceiptKey, {server}));
  }
  keys.insert(kReceiptKey);
  CHECK(keys.size() == 101);
}

TEST_CASE("receipts: those of the servers at which a batch ends, by a plan") {
  ClusterConfig cluster;
  cluster.slots = 4;
  cluster.input_slots = 2;
  Plan plan = EqualPlan(7, 4, {{"a", "a", {1}}, {"b", "b", {2}}, {"c", "c", {3}}});
  plan.slot_owner = {0, 0, 1, 1};  // neurons, input rows; the third server has nothing
  const auto receipt = [&](uint64_t server, LeaseKind kind) {
    return ReceiptOf(ReceiptKeyOf(kReceiptKey, {server}), {server}, kWorker, 7, kind, kBatch,
                     kind == LeaseKind::kTrain ? static_cast<double>(server) : 0);
  };
  const std::vector<double> parts = {1, 2};
  CHECK(ReceiptsOf(kReceiptKey, plan, cluster, kWorker, LeaseKind::kTrain, kBatch, parts) ==
        std::vector<uint64_t>{receipt(1, LeaseKind::kTrain), receipt(2, LeaseKind::kTrain)});
  CHECK(ReceiptsOf(kReceiptKey, plan, cluster, kWorker, LeaseKind::kEvaluate, kBatch, {}) ==
        std::vector<uint64_t>{receipt(1, LeaseKind::kEvaluate)});
  const std::vector<uint64_t> before =
      ReceiptsOf(kReceiptKey, plan, cluster, kWorker, LeaseKind::kTrain, kBatch, parts);
  plan.version = 8;
  CHECK(ReceiptsOf(kReceiptKey, plan, cluster, kWorker, LeaseKind::kTrain, kBatch, parts) !=
        before);
}

}  // namespace
}  // namespace dslide::lease_proofs_test
