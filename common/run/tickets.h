// Tickets and receipts: a ticket shows a server that the scheduler has leased a batch to a worker,
// a receipt shows the scheduler that a server has taken a batch from a worker (section 16 of
// schema/PROTOCOL.md).
//
// Both are hashes under a key that a life of the scheduler draws and tells its servers. Workers
// carry them from one side to the other, and can make none. All functions are pure.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/security/keyed_hash.h"
#include "common/wire/messages.h"

namespace dslide {

// Of a batch in a lease. It holds as long as the scheduler and the worker live.
uint64_t TicketOf(const HashKey& key, Incarnation worker, LeaseKind kind, const BatchId& batch);

// Of the last request of a batch, which `server` has carried out by plan `plan_version`.
uint64_t ReceiptOf(const HashKey& key, Incarnation server, Incarnation worker,
                   uint32_t plan_version, LeaseKind kind, const BatchId& batch);

// The exclusive or of the receipts that a worker has when it has done a batch by a plan: those of
// the servers with neurons, in training also of those with input rows.
uint64_t ReceiptsOf(const HashKey& key, const Plan& plan, const ClusterConfig& cluster,
                    Incarnation worker, LeaseKind kind, const BatchId& batch);

}  // namespace dslide
