// The requests of workers and other servers, from their arrival to the reply.
//
// A request counts once: a repeated request gets the stored reply, or waits for it while the
// executors work on the first. In synchronous training a batch's first request waits until its step
// is open. Requests of a worker that the scheduler dropped are refused. Requests by a plan that is
// not in force yet are kept until it is.
//
// A batch begins with a ticket of the scheduler (LeaseGate). The other requests of a batch are for
// workers that have begun one: nothing is kept of other workers.
//
// Memory and time are bounded, whatever peers send. A sender has at most kMostJobsOfSender requests
// before the executors, and others of it wait here; queues and kept replies have limits in bytes
// (RequestLimits), and the sender with the most in a queue makes room for the others. Numbers are
// checked before the executors see them (NumberCheck).
//
// Invariants: the queues are bounded; no request waits for a step that is open.
#pragma once

#include <cstdint>
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
#include "server/core/verdict.h"
#include "server/gate/fair_queue.h"
#include "server/gate/lease_gate.h"
#include "server/gate/loss_book.h"
#include "server/gate/number_check.h"

namespace dslide {

// What may be kept.
struct RequestLimits {
  uint64_t replies = ReplyCache::kLeastBytes;  // bytes
  uint64_t queue = uint64_t{64} << 20;         // bytes of each
  uint64_t early = uint64_t{64} << 20;         // bytes of one sender, for a plan to come
  size_t senders = ReplyCache::kSenders;       // whose replies are kept

  // For a server that may use so much memory for its rows: a sixteenth of it each, at least the
  // above, and what one worker of the run may have waiting.
  static RequestLimits For(uint64_t memory_bytes, const Config& config);
};

class RequestTable {
 public:
  static constexpr size_t kMaxWaiting = 512;  // requests for a step that is not open yet
  static constexpr size_t kMaxEarly = 512;    // requests for a plan that is not in force yet

  struct Early {
    PeerId peer;
    Message message;
    int64_t arrived_us;
  };

  // Beyond these, senders take turns.
  static constexpr size_t kMostJobsOfSender = 32;
  // A plan that is further ahead than that is none.
  static constexpr uint32_t kMostPlansAhead = 64;
  // Neurons that a TopKRequest may ask for; an evaluation asks for kMaxMetricK.
  static constexpr uint32_t kMostRanked = 100;

  explicit RequestTable(RequestLimits limits = {});

  // Why a request is refused, under the plan in force and before it is kept for a plan to come: its
  // sender is fenced, has no ticket for the batch that the request begins, or has begun no batch.
  // Removes a next batch without a ticket from an EmbedPush. REQUIRES a request of a worker.
  std::optional<ErrorReply> WhyNotKept(Message* message, const ServerSeat& seat,
                                       ServerOutbox* out) const;
  // Keeps a request for a plan to come. Returns the requests that are not kept, because there are
  // too many. Pulls of servers wait apart from requests of workers.
  [[nodiscard]] std::vector<Early> KeepEarly(Early request);
  std::vector<Early> TakeEarly();

  // The verdict on a request under the plan in force. Removes a next batch without a ticket.
  Verdict Admit(Message* message, const ServerSeat& seat, int64_t now_us, ServerOutbox* out);
  // REQUIRES Admit() said verdict::Serve.
  void Serve(const PeerId& peer, Message message, const ServerSeat& seat, int64_t now_us,
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
  // Drops the replies and batches of senders without a request since `before_ms`. Their leases have
  // ended. One that comes back begins its batches again.
  void DropSilent(int64_t before_ms, ServerOutbox* out);
  // A plan switch begins: requests that wait are of the plan before.
  void RefuseWaiting(uint32_t plan_version, int64_t now_us, ServerOutbox* out);

  size_t waiting() const { return waiting_.size(); }
  // Those whose replies are kept.
  std::vector<Incarnation> Senders() const { return replies_.Senders(); }
  // Of the replies and requests that are kept.
  uint64_t bytes() const {
    return replies_.bytes() + early_.bytes() + early_pulls_.bytes() + waiting_.bytes() +
           held_.bytes();
  }

  // For people: the keys that have set the bounds.
  std::string Bounds() const { return numbers_.Bounds(); }

  void CheckInvariants(const ServerSeat& seat) const;

 private:
  bool MustWait(const Body& request, const ServerSeat& seat) const;
  void NoteForAudit(const Asker& asker, const Body& request, AuditBook::Outcome outcome,
                    const ServerSeat& seat, ServerOutbox* out);
  // Condenses the statistics of a reply, and stores what the checks of later requests need.
  void NoteStatistics(Incarnation sender, const Body& request, const ServerSeat& seat, Body* reply);
  std::string WhyRefused(const Body& request, const ServerSeat& seat) const;
  void Accept(PeerRequest request, const ServerSeat& seat, int64_t now_us, ServerOutbox* out);
  void Wait(uint64_t step, PeerRequest request, int64_t now_us, ServerOutbox* out);
  void Submit(PeerRequest request, int64_t now_us, ServerOutbox* out);
  void EndJob(Incarnation sender, ServerOutbox* out);

  FairQueue<Early> early_;
  FairQueue<Early> early_pulls_;
  FairQueue<PeerRequest> waiting_;      // by step
  FairQueue<PeerRequest> held_;         // their senders have kMostJobsOfSender jobs
  std::map<Incarnation, size_t> jobs_;  // of workers, before the executors
  std::optional<uint64_t> committed_;
  ReplyCache replies_;
  AuditBook audits_;
  NumberCheck numbers_;
  LossBook losses_;
  std::set<Incarnation> fenced_;
};

}  // namespace dslide
