// Decides which workers the scheduler trusts, and excludes those that lie (sections 15 and 16 of
// schema/PROTOCOL.md). It checks each report of a batch (report_check.h), has some batches trained
// again (audits.h), judges the complaints of servers, and excludes workers (offences.h).
//
// Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/members/offences.h"
#include "scheduler/pass/audits.h"
#include "scheduler/pass/pass.h"
#include "scheduler/pass/report_check.h"
#include "scheduler/plan/cluster.h"

namespace dslide {

// How the checks of counted batches by other workers have ended.
struct TrustTotals {
  uint64_t done = 0;       // a majority was found
  uint64_t skipped = 0;    // nobody else has trained the batch
  uint64_t undecided = 0;  // votes differed, and none had a majority
  std::set<Incarnation> liars;
  uint64_t taken_back = 0;  // of all of them: what was in the sums did not count
};

class TrustPolicy {
 public:
  // The parts of the run that the policy reads and changes.
  struct Run {
    const RunContext& inputs;
    Cluster* cluster;
    Pass* pass;
    Outbox* out;
    bool in_pass;  // no pass waits for a server
  };
  // The next step, which the caller has to take.
  enum class Sequel {
    kNone,
    kProceed,        // batches may count for their steps now
    kTakeStepsBack,  // steps that are not committed must not count
  };

  // Sets train.audit where it is left open. `keyed`: members have keys.
  static void Resolve(bool keyed, TrainConfig* train) {
    if (keyed && train->audit < 0.0f && train->staleness == 0) train->audit = 0.02f;
  }

  // Whether a batch of the pass in progress was done as it is reported. If not, the batch is leased
  // again, and the worker may be gone afterwards. `plan`: by which the batch ended.
  [[nodiscard]] bool Accepts(const BatchDone& done, Incarnation worker, const Plan& plan,
                             const Run& run, int64_t now_ms);
  // The report of a trained batch with figures within what is shown. REQUIRES that it is accepted.
  static BatchDone Shown(const BatchDone& done, const Run& run) {
    return Bounded(done, run.pass->WeightOf(run.inputs, done.batch), run.inputs);
  }
  // A batch of the pass was reported and accepted. All witnesses may have told of it before.
  // Workers may be gone afterwards.
  [[nodiscard]] Sequel OnReported(const BatchId& batch, const Run& run, int64_t now_ms);
  // An assigned server reports what workers have done, by a plan of this generation. Workers may be
  // gone afterwards.
  template <typename Report>
  static constexpr bool kTakes =
      std::is_same_v<Report, AuditReport> || std::is_same_v<Report, Offence>;
  [[nodiscard]] Sequel On(const AuditReport& report, const Member& server, uint32_t plan_version,
                          const Run& run, int64_t now_ms);
  [[nodiscard]] Sequel On(const Offence& offence, const Member& server, uint32_t plan_version,
                          const Run& run, int64_t now_ms);
  // Looks at everything that time decides. Workers may be gone afterwards.
  [[nodiscard]] Sequel Tick(const Run& run, int64_t now_ms);

  // Whether nobody's reports were believed since the plan, of so many workers.
  bool DoubtsAll(const Plan& plan, size_t workers) const {
    return believed_.Nobodys(plan.version, workers);
  }
  // Whether a process was excluded from a run without keys. With keys, quarantine keeps it out.
  bool HasExcluded(const std::string& name, const PeerId& peer) const {
    return excluded_.contains(name) || excluded_.contains(peer);
  }
  // A worker's losses alone do not exclude it: servers have told them and may lie.
  void Slow(Incarnation worker, int64_t now_ms) { offences_.Slow(worker, now_ms); }

  const Offences& offences() const { return offences_; }
  const TrustTotals& totals() const { return totals_; }

 private:
  using Evidence = Offences::Evidence;

  Evidence EvidenceOf(const ReportFault& fault, Incarnation worker, const Run& run, int64_t now_ms);
  Evidence Complain(const std::vector<Incarnation>& servers, Incarnation worker, const Run& run,
                    int64_t now_ms);
  void NoteOffence(Incarnation worker, const std::string& reason, Evidence evidence, const Run& run,
                   int64_t now_ms);
  void Exclude(Incarnation worker, const std::string& why, bool and_its_key,
               const std::vector<uint32_t>& accusers, const Run& run, int64_t now_ms);

  void FollowMembers(const Run& run, bool if_changed) const;
  bool Count(const Audits::Outcome& outcome, const Run& run);
  Sequel OnEnded(std::vector<Audits::Outcome> ended, const Run& run, int64_t now_ms);

  Offences offences_;
  Believed believed_;
  std::set<std::string> excluded_;  // names and peer ids, if without keys
  // The audits that each key, or incarnation without keys, has missed.
  std::map<uint64_t, uint32_t> missed_;
  TrustTotals totals_;
  int64_t looked_ms_ = std::numeric_limits<int64_t>::min() / 2;  // at all audits
};

}  // namespace dslide
