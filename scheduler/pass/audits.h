// Audit by re-execution: some batches are trained by a second worker before their step is
// committed, and servers report whether both sent the same (section 15 of PROTOCOL.md). Two that
// agree are believed. Where two differ a third decides.
//
// Which batches are audited is drawn from a secret: a worker that knew could lie on the others
// only. Pure; owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

class Audits {
 public:
  static constexpr size_t kMostExecutions = 5;  // after which nobody is believed
  // How an audit ended.
  struct Outcome {
    BatchId batch;
    uint64_t number = 0;             // within the epoch
    std::vector<Incarnation> liars;  // they sent something else than most
    bool liar_counts = false;        // what a liar sent is in the sums of some server
    bool undecided = false;          // workers differ, and nobody is left to decide
    bool skipped = false;            // no other worker could train it
  };

  // `share` of the batches, 0 to 1. `patience_ms`: for a worker that was asked, and for one that
  // may be asked to turn up.
  Audits(float share, uint64_t secret, int64_t patience_ms);

  // A batch counts by the report of `worker`. True: it is audited, Ended() says when that is over.
  bool Begin(const BatchId& batch, uint64_t number, Incarnation worker, int64_t now_ms);
  // A batch that the worker shall train, although it counts already.
  std::optional<BatchId> Next(Incarnation worker, int64_t now_ms);
  // What a server of the plan says.
  void Take(Incarnation server, const AuditReport& report);
  // The audits that have ended since the last call. `servers`: the plan's, all of which have to
  // agree.
  std::vector<Outcome> Ended(const std::vector<Incarnation>& servers, int64_t now_ms);

  size_t open() const { return open_.size(); }

 private:
  struct Audit {
    uint64_t number = 0;
    Incarnation first;                           // whose report counts
    std::map<Incarnation, int64_t> asked;        // workers, and when
    std::map<Incarnation, AuditReport> reports;  // by server
    int64_t since_ms = 0;                        // when the last worker was asked, or ended
  };

  std::optional<Outcome> OutcomeOf(const BatchId& batch, const Audit& audit,
                                   const std::vector<Incarnation>& servers, int64_t now_ms) const;

  float share_;
  uint64_t secret_;
  int64_t patience_ms_;
  std::map<BatchId, Audit> open_;
};

}  // namespace dslide
