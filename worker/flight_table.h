// The batches that a worker has in flight, and their requests that have no reply yet.
//
// The last request of a batch, its push, may carry the first request of the next batch. Invariant:
// every awaited request belongs to a flight of the table, and so does the batch that it carries.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/wire/messages.h"
#include "worker/batch_flight.h"
#include "worker/lease_queue.h"

namespace dslide {

// A batch in flight. It makes room for another one as soon as its gradients are pushed.
struct Flight {
  BatchFlight batch;
  LeasedBatch leased;  // to begin again
  uint64_t step;       // StepOf its batch
  int64_t started_us;
  int64_t service_us = 0;      // at servers, of the requests that its stages waited for
  bool pushed = false;         // the last stage is under way
  bool answered = false;       // its first stage is done
  int64_t first_reply_us = 0;  // to a request or probe in its present stage; 0: none yet
};

// A request without a reply. The numbers are ids of flights.
struct AwaitedReply {
  uint64_t flight;
  std::optional<uint64_t> next;  // its EmbedRequest goes with the EmbedPush of `flight`
  uint32_t server;               // index in the plan
  int64_t sent_us;
  WirePrecision precision;  // of the request and its reply
  size_t bytes = 0;         // of the request on the wire
  uint32_t repeats = 0;
  bool probe = false;  // asks for nothing: shows whether the server answers while others do not
};

class FlightTable {
 public:
  size_t size() const { return flights_.size(); }
  bool empty() const { return flights_.empty(); }
  // Flights up to `step` that have not pushed their gradients.
  size_t CountUnpushed(uint64_t step) const;
  // Flights whose first stage is not done.
  std::vector<uint64_t> Unanswered() const;

  uint64_t Begin(Flight flight);  // returns its id
  bool Has(uint64_t flight) const { return flights_.contains(flight); }
  // The last that began. REQUIRES !empty().
  uint64_t Youngest() const { return flights_.rbegin()->first; }
  Flight& At(uint64_t flight) { return flights_.at(flight); }
  const Flight& At(uint64_t flight) const { return flights_.at(flight); }
  // A flight that is done; only probes may be left of its requests.
  void End(uint64_t flight);
  // Removes a flight that is not done, and its requests. `next`: the flight whose first request
  // went with its push; it has lost that request. nullopt: there is no such flight.
  struct Failed {
    LeasedBatch leased;
    std::optional<uint64_t> next;
  };
  std::optional<Failed> Fail(uint64_t flight);
  // Removes all flights and requests; returns the batches, in the order in which they began.
  std::vector<LeasedBatch> Clear();

  // The request of `awaited`, as it was when it was sent first.
  Body RequestOf(const AwaitedReply& awaited) const;
  void Await(uint64_t sequence, const AwaitedReply& awaited);
  // The request that a reply of `server` answers. It is awaited no longer. nullopt: the reply is
  // late, or came before.
  std::optional<AwaitedReply> Take(uint64_t sequence, uint32_t server);
  // Calls `send` for each request that has waited for its reply for too long, and counts it as sent
  // now. Too long is `timeout_us` at first, then twice that, then four times: what waits behind a
  // slow link must not be sent faster than the link carries it.
  void SendAgain(int64_t now_us, int64_t timeout_us,
                 const std::function<void(uint64_t sequence, const AwaitedReply&)>& send);
  // Whether a probe of the flight to the server is awaited.
  bool IsProbed(uint64_t flight, uint32_t server) const;
  // What the request took on the wire.
  void CountSent(uint64_t sequence, size_t kind, size_t bytes);
  const std::map<uint64_t, AwaitedReply>& awaited() const { return awaited_; }  // by sequence

  // The flights only. Each request is checked when it is sent and when its reply comes.
  void CheckFlights() const;
  // Flights and all requests: with many servers too much for every message. `servers`: of the plan.
  void CheckInvariants(size_t servers) const;

 private:
  void Check(const AwaitedReply& awaited) const;

  uint64_t next_flight_ = 1;
  std::map<uint64_t, Flight> flights_;
  std::map<uint64_t, AwaitedReply> awaited_;
};

}  // namespace dslide
