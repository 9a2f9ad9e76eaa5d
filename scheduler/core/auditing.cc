#include "scheduler/core/auditing.h"

#include <fmt/core.h>

#include <utility>

#include "common/run/slot_plan.h"
#include "common/run/slot_rows.h"
#include "common/security/keys.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

// Each time that a worker is waited for in vain costs audit patience; training a batch once more in
// time makes up for an eighth of it.
constexpr uint32_t kMissed = 8;
constexpr uint32_t kMostMissed = 2 * kMissed;

// Keys where there are some: whoever is waited for in vain could come again as another member. Of
// evaluations, which wait for a short time, it is counted apart: a slow worker may still audit
// training.
uint64_t VoterOf(Incarnation worker, const RunState& run) {
  constexpr uint64_t kOfEvaluations = uint64_t{1} << 63;
  const uint64_t voter = run.inputs.keyed ? FingerprintOf(worker) : worker.value;
  return run.pass().evaluating() ? voter ^ kOfEvaluations : voter;
}

// All servers with slots; of an evaluation the scheduler itself.
std::vector<Audits::Server> Witnesses(const RunState& run) {
  if (run.pass().evaluating()) return {{Evaluation::kWitness, true, false}};
  const ClusterConfig& config = run.inputs.config.cluster;
  const std::vector<bool> output = ServersWith(run.plan(), OutputSlots(config));
  const std::vector<bool> input = ServersWith(run.plan(), InputSlots(config));
  std::vector<Audits::Server> servers;
  for (size_t i = 0; i < run.plan().servers.size(); ++i) {
    if (!output[i] && !input[i]) continue;
    servers.push_back({run.plan().servers[i].incarnation, output[i], input[i]});
  }
  return servers;
}

Audits::Basis BasisOf(const RunState& run) { return {run.roster().changes(), run.plan().version}; }

}  // namespace

std::string NameOf(const BatchId& batch) {
  return fmt::format("batch {}.{}.{}", batch.epoch, batch.unit, batch.index);
}

void FollowAudits(RunState* run) {
  if (!run->pass().Audited()) return;
  Audits::Members members;
  members.servers = Witnesses(*run);
  members.batch_ms = run->roster().BatchMs();
  members.basis = BasisOf(*run);
  for (const Member* worker : run->roster().Of(Role::kWorker)) {
    const auto missed = run->audits_missed.find(VoterOf(worker->incarnation, *run));
    if (missed != run->audits_missed.end() && missed->second >= kMostMissed) continue;
    members.workers.push_back(worker->incarnation);
  }
  run->pass().FollowAudits(std::move(members));
}

void FollowAuditsIfChanged(RunState* run) {
  if (run->pass().Audited() && run->pass().AuditsBasis() != BasisOf(*run)) FollowAudits(run);
}

bool NoteAudit(const Audits::Outcome& outcome, RunState* run) {
  run->totals.audits.Add(outcome);
  bool others = false;
  for (const Incarnation worker : outcome.missed) {
    uint32_t& missed = run->audits_missed[VoterOf(worker, *run)];
    others |= missed < kMostMissed && missed + kMissed >= kMostMissed;
    missed += kMissed;
  }
  for (const Incarnation worker : outcome.voted) {
    const auto missed = run->audits_missed.find(VoterOf(worker, *run));
    if (missed == run->audits_missed.end() || missed->second == 0) continue;
    others |= missed->second-- == kMostMissed;
  }
  const std::string batch = NameOf(outcome.batch);
  if (outcome.undecided) {
    run->out.Notice(
        {event::kAuditUndecided,
         fmt::format("workers differ in {}, and no majority decides who is right{}", batch,
                     outcome.take_back ? "" : "; there is no other key to ask")});
  }
  if (outcome.skipped) {
    run->out.Notice({event::kAuditSkipped,
                     fmt::format("{} was to be audited, and no other worker has trained it{}",
                                 batch, outcome.take_back ? "" : "; it counts")});
  }
  return others;
}

}  // namespace dslide
