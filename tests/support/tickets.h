// Tickets and receipts as a scheduler lets them be, for tests without one.
#pragma once

#include <utility>

#include "common/run/lease_proofs.h"

namespace dslide::testing {

// The scheduler's key of tickets. kReceiptKey: of the server under test.
inline const SigningKey& TicketKey() {
  static const SigningKey key = SigningKey::FromSeed({1, 2, 3, 4, 5, 6, 7, 8});
  return key;
}
constexpr HashKey kReceiptKey = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// The keys that the scheduler tells that server.
inline ServerKeys KeysOfServer() { return {TicketKey().verify_key(), kReceiptKey}; }
inline JoinReply JoinReplyWithKeys(std::string name, std::string config, uint64_t train_samples) {
  const auto& verify = TicketKey().verify_key().bytes;
  return {std::move(name),
          std::move(config),
          train_samples,
          0,
          Bytes(verify.begin(), verify.end()),
          Bytes(kReceiptKey.begin(), kReceiptKey.end())};
}

// The request with the ticket of the worker, if it begins a batch or its push carries one that
// does.
inline Body Ticketed(Body request, Incarnation worker) {
  const auto ticket = [&](LeaseKind kind, const BatchId& batch) {
    return TicketOf(TicketKey(), worker, kind, batch);
  };
  if (auto* begins = std::get_if<EmbedRequest>(&request)) {
    begins->ticket = ticket(LeaseKind::kTrain, begins->batch);
  }
  if (auto* push = std::get_if<EmbedPush>(&request); push != nullptr && push->next) {
    push->next->ticket = ticket(LeaseKind::kTrain, push->next->batch);
  }
  if (auto* query = std::get_if<ActiveQuery>(&request); query != nullptr && query->alone) {
    query->ticket = ticket(LeaseKind::kTrain, query->batch);
  }
  if (auto* top = std::get_if<TopKRequest>(&request)) {
    top->ticket = ticket(LeaseKind::kEvaluate, top->batch);
  }
  return request;
}

}  // namespace dslide::testing
