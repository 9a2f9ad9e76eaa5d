// Audit by re-execution: some batches are trained by a second worker before their step is
// committed, and servers report what each worker has sent and what of it is in their sums (section
// 15 of PROTOCOL.md).
//
// A vote is what a worker has sent for a batch, at all servers. Only workers that held a lease of
// the batch when it counted, or were asked to train it again, vote, and all members of a key have
// one vote; in a run without keys each worker has its own. While no vote has a majority of at least
// two, workers of other keys are asked, one at a time: another one once all have answered, or the
// last n have kept the audit waiting for n tenths of their time, and for two batches. What is
// judged is the work that counts: it has to be what the majority sent, whoever sent it.
//
// Which batches are audited is drawn from a secret, and anew whenever a batch counts: a worker that
// knew could lie on the others only. Pure; owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

class Audits {
 public:
  static constexpr int64_t kSlow = 10;       // parts of the patience, after which another is asked
  static constexpr size_t kMostVotes = 5;    // after which nobody more is asked
  static constexpr size_t kMostEarly = 256;  // batches whose reports came before they count
  static constexpr size_t kMostWorkers = 256;  // of a server's reports, but for those that matter

  // A server of the plan, and of which layers it has slots.
  struct Server {
    Incarnation incarnation;
    bool output = false;
    bool input = false;
    bool operator==(const Server&) const = default;
  };
  // From what the lists of members were made: others come with another one. {}: from nothing.
  struct Basis {
    uint64_t roster = 0;  // Roster::changes()
    uint32_t plan = 0;    // its version
    bool operator==(const Basis&) const = default;
  };
  // Who takes part now.
  struct Members {
    std::vector<Server> servers;       // all of which have to agree
    std::vector<Incarnation> workers;  // that may be asked
    double batch_ms = 0;               // what a batch takes (Roster::BatchMs()); 0: not known
    Basis basis = {};                  // of servers and workers
  };
  struct Liar {
    Incarnation worker;
    bool key_was_honest = false;  // another member of its key sent what most did
  };
  // How an audit ended.
  struct Outcome {
    BatchId batch;
    uint64_t number = 0;              // within the epoch
    std::vector<Liar> liars;          // they sent something else than most
    bool take_back = false;           // what is in the sums must not count
    bool undecided = false;           // votes differ, and none has a majority
    bool skipped = false;             // nobody else has trained it
    std::vector<Incarnation> voted;   // of those that were asked
    std::vector<Incarnation> missed;  // they were asked, or could have asked for work, in vain
  };

  struct Rules {
    float share = 0;  // of the batches, 0 to 1
    uint64_t secret = 0;
    int64_t patience_ms = 0;  // for a worker that was asked, and for one that may be asked
    bool keyed = false;       // the upper half of an incarnation tells the key (FingerprintOf)
  };

  explicit Audits(Rules rules) : rules_(rules) {}

  void Follow(Members members) { members_ = std::move(members); }
  const Basis& basis() const { return members_.basis; }
  void SetShare(float share) { rules_.share = share; }
  // A batch counts by the report of `worker`. `holders`: who had leases of it. True: it is audited,
  // Ended() and EndedBy() say when that is over. False also while there is no other key to ask.
  bool Begin(const BatchId& batch, uint64_t number, Incarnation worker,
             const std::vector<Incarnation>& holders, int64_t now_ms);
  // A batch that the worker shall train, although it counts already.
  std::optional<BatchId> Next(Incarnation worker, int64_t now_ms);
  // What a server of the plan says; also of a batch that does not count yet.
  void Take(Incarnation server, const AuditReport& report);
  // A worker that was asked has answered with what cannot be used. Nobody waits for it any more.
  void Fail(Incarnation worker, const BatchId& batch);
  // A worker has left. Nobody waits for it.
  void Leave(Incarnation worker);
  // What was reported of the audits in progress cannot be compared with what comes.
  void GiveUp() {
    open_.clear();
    early_.clear();
  }
  // Nobody could train for a while: all have their time from now on.
  void Renew(int64_t now_ms);
  // The audits that have ended since the last call. It looks at all of them: to be called now and
  // then.
  std::vector<Outcome> Ended(int64_t now_ms);
  // The audit of this batch, if what was reported has ended it: to be called after Begin() and
  // Take(). What time ends, or members that come and go, Ended() tells.
  std::optional<Outcome> EndedBy(const BatchId& batch, int64_t now_ms);

  size_t open() const { return open_.size(); }
  bool active() const { return rules_.share > 0.0f; }

 private:
  // A key, or a worker that has none.
  using Voter = uint64_t;
  // What a worker has sent: of each server of members_ the digests of its layers, in order. 0: not
  // yet.
  using Vote = std::vector<uint64_t>;
  struct Sent {
    uint64_t output = 0;
    uint64_t input = 0;
  };
  struct Reports {  // of a server
    std::map<Incarnation, Sent> sent;
    Incarnation output_counts, input_counts;
  };
  using ReportsByServer = std::map<Incarnation, Reports>;
  struct Audit {
    uint64_t number = 0;
    Incarnation first;                     // whose report made the batch count
    std::map<Incarnation, int64_t> asked;  // who votes, and since when
    std::set<Voter> left;                  // keys of which a member was asked and has left
    ReportsByServer reports;
    std::optional<int64_t> idle_since_ms;  // nobody is waited for
  };
  struct Tally {
    std::map<Vote, std::set<Voter>> votes;  // whole ones
    size_t voters = 0;                      // that have one
    const Vote* majority = nullptr;         // of `votes`
  };

  Voter VoterOf(Incarnation worker) const;
  bool HasKeyOf(const Audit& audit, Incarnation worker) const;
  void Add(const AuditReport& report, const Audit* audit, Reports* reports) const;
  // The vote of a worker by its reports; without a worker the vote of the servers' sums.
  Vote VoteOf(const ReportsByServer& reports, std::optional<Incarnation> worker) const;
  static Sent SentBy(const Reports& reports, Incarnation worker);
  static bool HasSent(const Reports& reports, const Server& server, Incarnation worker);
  bool HasVoted(const ReportsByServer& reports, Incarnation worker) const;
  bool TwoHaveVoted(const Audit& audit) const;
  std::set<Incarnation> CountingWorkers(const ReportsByServer& reports) const;
  bool Waits(const Audit& audit, int64_t patience_ms, int64_t now_ms) const;
  bool OthersCanVote(const Audit& audit) const;
  std::vector<Incarnation> Unasked(const Audit& audit) const;
  Tally TallyOf(const Audit& audit) const;
  void Judge(const Audit& audit, const Vote& majority, Outcome* outcome) const;
  void NoteVoters(const Audit& audit, int64_t now_ms, Outcome* outcome) const;
  std::optional<Outcome> OutcomeOf(const BatchId& batch, Audit* audit, int64_t now_ms) const;

  Rules rules_;
  Members members_;
  std::map<BatchId, Audit> open_;
  std::map<BatchId, ReportsByServer> early_;
};

}  // namespace dslide
