// What all passes of this scheduler's life come to, also what a recovery took back.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "scheduler/base/effects.h"
#include "scheduler/pass/audits.h"
#include "scheduler/pass/training_stats.h"

namespace dslide {

// How audits have ended.
struct AuditTotals {
  uint64_t done = 0;       // a majority was found
  uint64_t skipped = 0;    // nobody else has trained the batch
  uint64_t undecided = 0;  // votes differed, and none had a majority
  std::set<Incarnation> liars;
  uint64_t taken_back = 0;  // of all of them: what was in the sums did not count

  void Add(const Audits::Outcome& outcome) {
    skipped += outcome.skipped;
    undecided += outcome.undecided;
    for (const Audits::Liar& liar : outcome.liars) liars.insert(liar.worker);
    taken_back += outcome.take_back;
    done += !outcome.skipped && !outcome.undecided;
  }
};

struct RunTotals {
  TrainingStats work;
  TrainingStats work_before;  // those at the last evaluation of the held-out samples
  AuditTotals audits;
  uint64_t lease_bytes = 0;                         // of training leases, on the wire
  std::optional<EvaluationResult> last_evaluation;  // on test samples
  std::optional<EvaluationResult> last_held_out;
  std::vector<std::string> choices;  // of settings, a line each with its figures

  // What a message of the scheduler took on the wire.
  void CountSent(const Body& body, size_t bytes) {
    const auto* grant = std::get_if<LeaseGrant>(&body);
    if (grant != nullptr && grant->kind == LeaseKind::kTrain) lease_bytes += bytes;
  }
  double LeaseBytesPerSample() const { return work.PerSample(static_cast<double>(lease_bytes)); }
};

}  // namespace dslide
