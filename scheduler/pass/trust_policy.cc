#include "scheduler/pass/trust_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/nearest.h"
#include "common/run/batch_number.h"
#include "common/run/lease_proofs.h"
#include "common/run/slot_plan.h"
#include "common/run/slot_rows.h"
#include "common/security/keys.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

constexpr int64_t kLookMs = 100;     // between looks at all audits
constexpr size_t kMostReason = 200;  // characters of a server's reason for an offence

// A worker that does not train an audited batch in time is counted as having missed an audit; each
// audited batch in time takes back an eighth of that.
constexpr uint32_t kMissed = 8;
constexpr uint32_t kMostMissed = 2 * kMissed;

// Missed audits are counted by key, if members have keys: a worker could join again as another
// member. Evaluations wait for a short time, so theirs are counted apart: a slow worker may still
// audit training.
uint64_t VoterOf(Incarnation worker, const TrustPolicy::Run& run) {
  constexpr uint64_t kOfEvaluations = uint64_t{1} << 63;
  const uint64_t voter = run.inputs.keyed ? FingerprintOf(worker) : worker.value;
  return run.pass->evaluating() ? voter ^ kOfEvaluations : voter;
}

// All servers with slots; of an evaluation the scheduler itself.
std::vector<Audits::Server> Witnesses(const TrustPolicy::Run& run) {
  if (run.pass->evaluating()) return {{Evaluation::kWitness, true, false}};
  const ClusterConfig& config = run.inputs.config.cluster;
  const Plan& plan = run.cluster->seats.plan();
  const std::vector<bool> output = ServersWith(plan, OutputSlots(config));
  const std::vector<bool> input = ServersWith(plan, InputSlots(config));
  std::vector<Audits::Server> servers;
  for (size_t i = 0; i < plan.servers.size(); ++i) {
    if (!output[i] && !input[i]) continue;
    servers.push_back({plan.servers[i].incarnation, output[i], input[i]});
  }
  return servers;
}

// The accusers on which a quarantine rests, in brackets; without accusers "".
std::string AccuserText(const std::vector<uint32_t>& accusers, const Roster& roster) {
  if (accusers.empty()) return "";
  std::string names;
  for (const Member* server : roster.Of(Role::kServer)) {
    if (!std::ranges::binary_search(accusers, Offences::IdentityOf(server->incarnation))) continue;
    names += (names.empty() ? "" : ", ") + server->name;
  }
  return fmt::format(" (accused by {})", names.empty() ? "servers that have left" : names);
}

}  // namespace

bool TrustPolicy::Accepts(const BatchDone& done, Incarnation worker, const Plan& plan,
                          const Run& run, int64_t now_ms) {
  const double weight = run.pass->WeightOf(run.inputs, done.batch);
  const LeaseKind kind = run.pass->evaluating() ? LeaseKind::kEvaluate : LeaseKind::kTrain;
  const ReportFault fault = FaultOf(done, kind, worker, plan, weight, run.inputs);
  believed_.Note(plan.version, worker, fault.why.empty());
  if (fault.why.empty()) {
    FollowMembers(run, true);
    return true;
  }
  run.pass->GiveBack(worker, done.batch);
  NoteOffence(worker, fmt::format("{} for {}", fault.why, NameOf(done.batch)),
              EvidenceOf(fault, worker, run, now_ms), run, now_ms);
  return false;
}

// A server that gives a worker false receipts, or tells it a false loss, makes it look like a liar.
// So a missing receipt is that server's complaint, and a loss is shown only.
TrustPolicy::Evidence TrustPolicy::EvidenceOf(const ReportFault& fault, Incarnation worker,
                                              const Run& run, int64_t now_ms) {
  if (fault.is_loss) return std::nullopt;
  if (fault.servers.empty()) return Offences::Accusers();
  return Complain(fault.servers, worker, run, now_ms);
}

TrustPolicy::Evidence TrustPolicy::Complain(const std::vector<Incarnation>& servers,
                                            Incarnation worker, const Run& run, int64_t now_ms) {
  Offences::Accusers accusers;
  for (const Incarnation server : servers) {
    if (run.cluster->loads.Unproven(server)) continue;
    accusers.merge(offences_.Complain(server, worker, now_ms));
  }
  if (accusers.empty()) return std::nullopt;
  return accusers;
}

TrustPolicy::Sequel TrustPolicy::On(const AuditReport& report, const Member& server,
                                    uint32_t plan_version, const Run& run, int64_t now_ms) {
  // Digests of an earlier plan are by another key of the server.
  if (plan_version != run.cluster->seats.plan().version) return Sequel::kNone;
  if (run.pass->evaluating()) return Sequel::kNone;
  if (Audits* audits = run.pass->audits()) audits->Take(server.incarnation, report);
  return OnReported(report.batch, run, now_ms);
}

// A server that has not heard this life's key yet judges by another one; so a ticket is judged
// here.
TrustPolicy::Sequel TrustPolicy::On(const Offence& offence, const Member& server, uint32_t,
                                    const Run& run, int64_t now_ms) {
  const Incarnation worker{offence.worker};
  const Member* accused = run.cluster->roster.Find(worker);
  if (accused == nullptr || accused->role != Role::kWorker) return Sequel::kNone;
  if (run.cluster->loads.Unproven(server.incarnation)) return Sequel::kNone;
  for (const LeaseKind kind : {LeaseKind::kTrain, LeaseKind::kEvaluate}) {
    if (IsTicket(run.inputs.lease_keys.tickets.verify_key(), offence.ticket, worker, kind,
                 offence.batch)) {
      return Sequel::kNone;
    }
  }
  NoteOffence(worker,
              fmt::format("{} ({}), says {}", Printable(offence.reason, kMostReason),
                          NameOf(offence.batch), server.name),
              Complain({server.incarnation}, worker, run, now_ms), run, now_ms);
  return Sequel::kNone;
}

// A worker that is not in the roster has never got a ticket of this incarnation of the scheduler,
// so no offence of it is noted.
void TrustPolicy::NoteOffence(Incarnation worker, const std::string& reason, Evidence evidence,
                              const Run& run, int64_t now_ms) {
  const Member* member = run.cluster->roster.Find(worker);
  if (member == nullptr || member->role != Role::kWorker) return;
  run.out->Decide({event::kViolation,
                   fmt::format("an offence: {} {}", member->name, reason),
                   {{"worker", member->name}, {"why", reason}}},
                  now_ms);
  if (!believed_.ByAnother(run.cluster->seats.plan().version, worker)) evidence.reset();
  const std::optional<Offences::Accusers> excluded = offences_.Note(worker, evidence, now_ms);
  if (!excluded) return;
  const std::vector<uint32_t> accusers(excluded->begin(), excluded->end());
  Exclude(worker, fmt::format("has done what no honest worker does {} times", Offences::kMost),
          true, accusers, run, now_ms);
}

// A worker that has left is excluded, too: its key must not count any more.
void TrustPolicy::Exclude(Incarnation worker, const std::string& why, bool and_its_key,
                          const std::vector<uint32_t>& accusers, const Run& run, int64_t now_ms) {
  if (and_its_key) run.out->Quarantine(worker, accusers);
  const Member* member = run.cluster->roster.Find(worker);
  if (member == nullptr) return;
  run.out->Decide({event::kWorkerExcluded,
                   fmt::format("{} {}{}: it is excluded{}", member->name, why,
                               AccuserText(accusers, run.cluster->roster),
                               and_its_key ? "" : ", but not its key: another member was honest"),
                   {{"worker", member->name},
                    {"why", why},
                    {"accusers", accusers.size()},
                    {"key_too", and_its_key}}},
                  now_ms);
  if (!run.inputs.keyed) {
    excluded_.insert(member->name);
    excluded_.insert(member->peer);
  }
  run.cluster->Drop(*member, false, why, run.pass->Return(worker), now_ms, run.out);
}

// Tells the audits of the pass which workers take part. Workers that missed too many audits take no
// further part. The time grows with the number of members.
void TrustPolicy::FollowMembers(const Run& run, bool if_changed) const {
  Audits* audits = run.pass->audits();
  if (audits == nullptr || !audits->active()) return;
  const Roster& roster = run.cluster->roster;
  const Audits::Basis basis = {roster.changes(), run.cluster->seats.plan().version};
  if (if_changed && audits->basis() == basis) return;
  Audits::Members members{Witnesses(run), {}, roster.BatchMs(), basis};
  for (const Member* worker : roster.Of(Role::kWorker)) {
    const auto missed = missed_.find(VoterOf(worker->incarnation, run));
    if (missed != missed_.end() && missed->second >= kMostMissed) continue;
    members.workers.push_back(worker->incarnation);
  }
  audits->Follow(std::move(members));
}

// A report tells of one batch. Ticks look at all of them.
TrustPolicy::Sequel TrustPolicy::OnReported(const BatchId& batch, const Run& run, int64_t now_ms) {
  if (!run.in_pass || run.pass->unconfirmed() == 0) return Sequel::kNone;
  FollowMembers(run, true);
  std::optional<Audits::Outcome> ended = run.pass->audits()->EndedBy(batch, now_ms);
  return ended ? OnEnded({*std::move(ended)}, run, now_ms) : Sequel::kNone;
}

TrustPolicy::Sequel TrustPolicy::Tick(const Run& run, int64_t now_ms) {
  if (!run.in_pass || run.pass->unconfirmed() == 0) return Sequel::kNone;
  if (now_ms - looked_ms_ < kLookMs) return Sequel::kNone;
  looked_ms_ = now_ms;
  FollowMembers(run, false);
  return OnEnded(run.pass->audits()->Ended(now_ms), run, now_ms);
}

// Counts how an audit has ended, and tells people why nobody was found to be right. Returns whether
// others than before may be asked.
bool TrustPolicy::Count(const Audits::Outcome& outcome, const Run& run) {
  totals_.skipped += outcome.skipped;
  totals_.undecided += outcome.undecided;
  for (const Audits::Liar& liar : outcome.liars) totals_.liars.insert(liar.worker);
  totals_.taken_back += outcome.take_back;
  totals_.done += !outcome.skipped && !outcome.undecided;
  bool others = false;
  for (const Incarnation worker : outcome.missed) {
    uint32_t& missed = missed_[VoterOf(worker, run)];
    others |= missed < kMostMissed && missed + kMissed >= kMostMissed;
    missed += kMissed;
  }
  for (const Incarnation worker : outcome.voted) {
    const auto missed = missed_.find(VoterOf(worker, run));
    if (missed == missed_.end() || missed->second == 0) continue;
    others |= missed->second-- == kMostMissed;
  }
  const std::string batch = NameOf(outcome.batch);
  if (outcome.undecided) {
    run.out->Notice(
        {event::kAuditUndecided,
         fmt::format("workers differ in {}, and no majority decides who is right{}", batch,
                     outcome.take_back ? "" : "; there is no other key to ask")});
  }
  if (outcome.skipped) {
    run.out->Notice({event::kAuditSkipped,
                     fmt::format("{} was to be audited, and no other worker has trained it{}",
                                 batch, outcome.take_back ? "" : "; it counts")});
  }
  return others;
}

TrustPolicy::Sequel TrustPolicy::OnEnded(std::vector<Audits::Outcome> ended, const Run& run,
                                         int64_t now_ms) {
  if (ended.empty()) return Sequel::kNone;
  for (Audits::Outcome& outcome : ended) run.pass->Settle(&outcome);
  bool take_back = false, others_asked = false;
  for (const Audits::Outcome& outcome : ended) {
    take_back |= outcome.take_back;
    others_asked |= Count(outcome, run);
    for (const Audits::Liar& liar : outcome.liars) {
      const Member* member = run.cluster->roster.Find(liar.worker);
      if (member != nullptr && member->role != Role::kWorker) continue;  // a server's word
      // Its key goes into quarantine as well, unless another member of it was honest.
      Exclude(liar.worker,
              fmt::format("{} something else for {} than two others did",
                          run.pass->evaluating() ? "predicted" : "sent", NameOf(outcome.batch)),
              !liar.key_was_honest, {}, run, now_ms);
    }
  }
  if (others_asked) FollowMembers(run, false);
  if (!take_back) return Sequel::kProceed;
  if (!run.pass->evaluating()) return Sequel::kTakeStepsBack;
  const bool again = run.pass->EvaluateAgain(run.inputs);
  run.out->Decide({event::kEvaluationRepeated,
                   again ? "a worker has lied: the evaluation begins again"
                         : "a worker has lied again: its last predictions stay in this evaluation",
                   {{"again", again}}},
                  now_ms);
  return Sequel::kProceed;
}

}  // namespace dslide
