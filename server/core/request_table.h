// The requests of workers and other servers, from their arrival to the reply.
//
// A request counts once: a repeated request gets the stored reply, or waits for it while the
// executors work on the first. In synchronous training a batch's first request waits until its step
// is open. Requests of a worker that the scheduler dropped are refused. Requests by a plan that is
// not in force yet are kept until it is.
//
// A batch begins with a ticket of the scheduler (TicketGate). The other requests of a batch are for
// workers that have begun one: of those who have not nothing is kept.
//
// Invariants: both queues are bounded; no request waits for a step that is open.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"
#include "server/core/audit_book.h"
#include "server/core/reply_cache.h"
#include "server/core/ticket_gate.h"

namespace dslide {

class RequestTable {
 public:
  static constexpr size_t kMaxWaiting = 512;  // requests for a step that is not open yet
  static constexpr size_t kMaxEarly = 512;    // requests for a plan that is not in force yet

  struct Early {
    PeerId peer;
    Message message;
    int64_t arrived_us;
  };

  // Keeps a request for a plan to come. False: too many are kept already.
  [[nodiscard]] bool KeepEarly(Early request);
  std::deque<Early> TakeEarly();

  // A request under the plan in force.
  void Take(const PeerId& peer, Message message, const ServerSeat& seat, int64_t now_us,
            ServerOutbox* out);
  // All executors' parts of a request: the reply, or the request's second round. Floats that are
  // not finite end the server, because training has diverged.
  void Complete(PeerRequest request, std::vector<JobReply> parts, const ServerSeat& seat,
                int64_t now_us, ServerOutbox* out);
  // Answers, and keeps the answer for a repeated request.
  void Reply(const Asker& asker, Body body, int64_t now_us, ServerOutbox* out);

  // The scheduler commits steps. Requests that waited for them go to the executors behind the
  // commit; executors work in the order of submission.
  void OnCommit(const CommitSteps& commit, const ServerSeat& seat, ServerOutbox* out);
  // Steps; none before the first CommitSteps.
  std::optional<uint64_t> committed() const { return committed_; }

  // The scheduler took a worker for dead: its batches, replies and requests are dropped.
  void DropWorker(Incarnation worker, ServerOutbox* out);
  // A plan switch begins: requests that wait are of the plan before.
  void RefuseWaiting(uint32_t plan_version, int64_t now_us, ServerOutbox* out);

  size_t waiting() const { return waiting_.size(); }
  // Those whose replies are kept.
  std::vector<Incarnation> Senders() const { return replies_.Senders(); }
  uint64_t reply_bytes() const { return replies_.bytes(); }  // of all replies that are kept

  void CheckInvariants(const ServerSeat& seat) const;

 private:
  bool MustWait(const Body& request, const ServerSeat& seat) const;
  void NoteForAudit(const Asker& asker, const Body& request, AuditBook::Outcome outcome,
                    const ServerSeat& seat, ServerOutbox* out);
  std::string WhyRefused(const Body& request, const ServerSeat& seat) const;
  void Accept(PeerRequest request, const ServerSeat& seat, int64_t now_us, ServerOutbox* out);

  std::deque<Early> early_;
  std::multimap<uint64_t, PeerRequest> waiting_;  // by step
  std::optional<uint64_t> committed_;
  ReplyCache replies_;
  AuditBook audits_;
  TicketGate gate_;
  std::set<Incarnation> fenced_;
};

}  // namespace dslide
