// Tickets as a scheduler gives them, for tests without one.
#pragma once

#include <utility>

#include "common/run/tickets.h"

namespace dslide::testing {

constexpr HashKey kTicketKey = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

inline Bytes TicketKeyBytes() { return Bytes(kTicketKey.begin(), kTicketKey.end()); }

// The request with the ticket of the worker, if it begins a batch or its push carries one that
// does.
inline Body Ticketed(Body request, Incarnation worker) {
  const auto embed = [&](EmbedRequest* begins) {
    begins->ticket = TicketOf(kTicketKey, worker, LeaseKind::kTrain, begins->batch);
  };
  if (auto* begins = std::get_if<EmbedRequest>(&request)) embed(begins);
  if (auto* push = std::get_if<EmbedPush>(&request); push != nullptr && push->next) {
    embed(&*push->next);
  }
  if (auto* query = std::get_if<ActiveQuery>(&request); query != nullptr && query->alone) {
    query->ticket = TicketOf(kTicketKey, worker, LeaseKind::kTrain, query->batch);
  }
  if (auto* top = std::get_if<TopKRequest>(&request)) {
    top->ticket = TicketOf(kTicketKey, worker, LeaseKind::kEvaluate, top->batch);
  }
  return request;
}

}  // namespace dslide::testing
