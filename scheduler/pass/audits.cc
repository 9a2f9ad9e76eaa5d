#include "scheduler/pass/audits.h"

#include <algorithm>

#include "common/base/random.h"
#include "common/security/keys.h"

namespace dslide {
namespace {

// What is there is not what the majority sent.
bool Differs(const std::vector<uint64_t>& vote, const std::vector<uint64_t>& majority) {
  for (size_t i = 0; i < vote.size(); ++i) {
    if (vote[i] != 0 && vote[i] != majority[i]) return true;
  }
  return false;
}

}  // namespace

Audits::Voter Audits::VoterOf(Incarnation worker) const {
  return rules_.keyed ? FingerprintOf(worker) : worker.value;
}

bool Audits::HasKeyOf(const Audit& audit, Incarnation worker) const {
  const Voter voter = VoterOf(worker);
  return std::ranges::any_of(audit.asked,
                             [&](const auto& asked) { return VoterOf(asked.first) == voter; });
}

bool Audits::Begin(const BatchId& batch, uint64_t number, Incarnation worker,
                   const std::vector<Incarnation>& holders, int64_t now_ms) {
  auto early = early_.extract(batch);
  if (rules_.share <= 0.0f) return false;
  const bool alone = std::ranges::none_of(
      members_.workers, [&](Incarnation one) { return VoterOf(one) != VoterOf(worker); });
  if (alone) return false;
  const uint64_t seed = SubSeed(SubSeed(rules_.secret, batch.epoch), number);
  Random random(SubSeed(seed, static_cast<uint64_t>(now_ms)));
  if (random.Uniform() >= rules_.share) return false;
  Audit& audit = open_[batch];
  audit.number = number;
  audit.first = worker;
  audit.asked.emplace(worker, now_ms);
  for (const Incarnation holder : holders) audit.asked.emplace(holder, now_ms);
  if (!early.empty()) audit.reports = std::move(early.mapped());
  return true;
}

// The others of `asked` have to end, or their time to be over.
bool Audits::Waits(const Audit& audit, int64_t patience_ms, int64_t now_ms) const {
  return std::ranges::any_of(audit.asked, [&](const auto& asked) {
    const auto& [worker, since_ms] = asked;
    return worker != audit.first && now_ms - since_ms < patience_ms &&
           !HasVoted(audit.reports, worker);
  });
}

bool Audits::OthersCanVote(const Audit& audit) const {
  return std::ranges::any_of(members_.workers,
                             [&](Incarnation worker) { return !HasKeyOf(audit, worker); });
}

std::vector<Incarnation> Audits::Unasked(const Audit& audit) const {
  std::vector<Incarnation> unasked;
  for (const Incarnation worker : members_.workers) {
    if (!HasKeyOf(audit, worker)) unasked.push_back(worker);
  }
  return unasked;
}

std::optional<BatchId> Audits::Next(Incarnation worker, int64_t now_ms) {
  if (std::ranges::find(members_.workers, worker) == members_.workers.end()) return std::nullopt;
  for (auto& [batch, audit] : open_) {
    const auto others = static_cast<int64_t>(audit.asked.size()) - 1;
    // An honest worker is given the time for its batch: an accomplice could answer at once.
    const auto least_ms = static_cast<int64_t>(2 * members_.batch_ms);
    const int64_t soon_ms =
        std::min(std::max(others * rules_.patience_ms / kSlow, least_ms), rules_.patience_ms);
    if (HasKeyOf(audit, worker) || Waits(audit, soon_ms, now_ms)) continue;
    const Tally tally = TallyOf(audit);
    if (tally.majority != nullptr || tally.voters >= kMostVotes) continue;
    audit.asked.emplace(worker, now_ms);
    audit.idle_since_ms.reset();
    return batch;
  }
  return std::nullopt;
}

// What a server has said of a worker's part stands.
void Audits::Add(const AuditReport& report, const Audit* audit, Reports* reports) const {
  if (report.output_counts != 0) reports->output_counts = {report.output_counts};
  if (report.input_counts != 0) reports->input_counts = {report.input_counts};
  for (size_t i = 0; i < report.workers.size(); ++i) {
    const Incarnation worker{report.workers[i]};
    const bool matters = worker == reports->output_counts || worker == reports->input_counts ||
                         (audit != nullptr && audit->asked.contains(worker));
    if (!matters && reports->sent.size() >= kMostWorkers) continue;
    Sent& sent = reports->sent[worker];
    if (sent.output == 0) sent.output = report.digests[i];
    if (sent.input == 0) sent.input = report.input_digests[i];
  }
}

void Audits::Take(Incarnation server, const AuditReport& report) {
  if (const auto found = open_.find(report.batch); found != open_.end()) {
    return Add(report, &found->second, &found->second.reports[server]);
  }
  if (rules_.share <= 0.0f) return;
  Add(report, nullptr, &early_[report.batch][server]);
  // Of batches that count and are not audited there may be reports, too; they are the lowest.
  if (early_.size() > kMostEarly) early_.erase(early_.begin());
}

void Audits::Fail(Incarnation worker, const BatchId& batch) {
  const auto audit = open_.find(batch);
  if (audit == open_.end()) return;
  const auto found = audit->second.asked.find(worker);
  if (found != audit->second.asked.end()) found->second -= rules_.patience_ms;
}

// Its key may be asked once more, and no oftener: members could leave whenever they are asked.
void Audits::Leave(Incarnation worker) {
  for (auto& [batch, audit] : open_) {
    const auto found = audit.asked.find(worker);
    if (found == audit.asked.end() || worker == audit.first) continue;
    if (HasVoted(audit.reports, worker)) continue;
    if (audit.left.insert(VoterOf(worker)).second) {
      audit.asked.erase(found);
    } else {
      found->second -= rules_.patience_ms;
    }
  }
}

void Audits::Renew(int64_t now_ms) {
  for (auto& [batch, audit] : open_) {
    for (auto& [worker, since_ms] : audit.asked) since_ms = now_ms;
    if (audit.idle_since_ms) audit.idle_since_ms = now_ms;
  }
}

// Returns 0 without a report of the worker.
Audits::Sent Audits::SentBy(const Reports& reports, Incarnation worker) {
  const auto found = reports.sent.find(worker);
  return found == reports.sent.end() ? Sent() : found->second;
}

// A worker's part for a server is there.
bool Audits::HasSent(const Reports& reports, const Server& server, Incarnation worker) {
  const Sent sent = SentBy(reports, worker);
  return (!server.output || sent.output != 0) && (!server.input || sent.input != 0);
}

Audits::Vote Audits::VoteOf(const ReportsByServer& reports,
                            std::optional<Incarnation> worker) const {
  const Reports none;
  Vote vote;
  for (const Server& server : members_.servers) {
    const auto found = reports.find(server.incarnation);
    const Reports& said = found == reports.end() ? none : found->second;
    if (server.output) vote.push_back(SentBy(said, worker.value_or(said.output_counts)).output);
    if (server.input) vote.push_back(SentBy(said, worker.value_or(said.input_counts)).input);
  }
  return vote;
}

// All digests are there. Mostly one of the first servers tells that they are not.
bool Audits::HasVoted(const ReportsByServer& reports, Incarnation worker) const {
  if (members_.servers.empty()) return false;
  return std::ranges::all_of(members_.servers, [&](const Server& server) {
    const auto of_server = reports.find(server.incarnation);
    return of_server != reports.end() && HasSent(of_server->second, server, worker);
  });
}

// Before that there is no majority. Each server reports, and all but the last one in vain: so it
// ends at the first server that lacks something.
bool Audits::TwoHaveVoted(const Audit& audit) const {
  std::vector<Incarnation> whole;
  for (const auto& [worker, since_ms] : audit.asked) whole.push_back(worker);
  for (const Server& server : members_.servers) {
    const auto of_server = audit.reports.find(server.incarnation);
    if (of_server == audit.reports.end()) return false;
    std::erase_if(whole,
                  [&](Incarnation worker) { return !HasSent(of_server->second, server, worker); });
    if (whole.size() < 2) return false;
  }
  return whole.size() >= 2 && !members_.servers.empty();
}

// Whose work is in the sums of some server.
std::set<Incarnation> Audits::CountingWorkers(const ReportsByServer& reports) const {
  std::set<Incarnation> workers;
  for (const Server& server : members_.servers) {
    const auto found = reports.find(server.incarnation);
    if (found == reports.end()) continue;
    if (server.output) workers.insert(found->second.output_counts);
    if (server.input) workers.insert(found->second.input_counts);
  }
  workers.erase(Incarnation{});
  return workers;
}

Audits::Tally Audits::TallyOf(const Audit& audit) const {
  Tally tally;
  std::set<Voter> voters;
  for (const auto& [worker, since_ms] : audit.asked) {
    if (!HasVoted(audit.reports, worker)) continue;
    tally.votes[VoteOf(audit.reports, worker)].insert(VoterOf(worker));
    voters.insert(VoterOf(worker));
  }
  tally.voters = voters.size();
  size_t most = 0;
  for (const auto& [vote, for_it] : tally.votes) {
    if (for_it.size() == most) tally.majority = nullptr;
    if (for_it.size() <= most) continue;
    most = for_it.size();
    tally.majority = &vote;
  }
  if (most < 2) tally.majority = nullptr;
  return tally;
}

// Liars are those whose work counts, the voters, and who reported the batch without having sent it.
void Audits::Judge(const Audit& audit, const Vote& majority, Outcome* outcome) const {
  std::set<Incarnation> judged = CountingWorkers(audit.reports);
  for (const auto& [worker, since_ms] : audit.asked) judged.insert(worker);
  std::set<Voter> honest;
  for (const Incarnation worker : judged) {
    if (VoteOf(audit.reports, worker) == majority) honest.insert(VoterOf(worker));
  }
  for (const Incarnation worker : judged) {
    const Vote vote = VoteOf(audit.reports, worker);
    if (Differs(vote, majority) || (worker == audit.first && !HasVoted(audit.reports, worker))) {
      outcome->liars.push_back({worker, honest.contains(VoterOf(worker))});
    }
  }
  outcome->take_back = VoteOf(audit.reports, std::nullopt) != majority;
}

void Audits::NoteVoters(const Audit& audit, int64_t now_ms, Outcome* outcome) const {
  for (const auto& [worker, since_ms] : audit.asked) {
    if (worker == audit.first) continue;
    if (HasVoted(audit.reports, worker)) {
      outcome->voted.push_back(worker);
    } else if (now_ms - since_ms >= rules_.patience_ms) {
      outcome->missed.push_back(worker);
    }
  }
}

std::optional<Audits::Outcome> Audits::OutcomeOf(const BatchId& batch, Audit* audit,
                                                 int64_t now_ms) const {
  Outcome outcome;
  outcome.batch = batch;
  outcome.number = audit->number;
  const Tally tally = TallyOf(*audit);
  if (tally.majority != nullptr) {
    Judge(*audit, *tally.majority, &outcome);
    NoteVoters(*audit, now_ms, &outcome);
    return outcome;
  }
  if (Waits(*audit, rules_.patience_ms, now_ms)) return std::nullopt;
  const bool others = OthersCanVote(*audit);
  if (tally.voters < kMostVotes && others) {
    if (!audit->idle_since_ms) audit->idle_since_ms = now_ms;
    if (now_ms - *audit->idle_since_ms < rules_.patience_ms) return std::nullopt;
    outcome.missed = Unasked(*audit);
  }
  NoteVoters(*audit, now_ms, &outcome);
  (tally.votes.size() >= 2 ? outcome.undecided : outcome.skipped) = true;
  outcome.take_back = others;
  return outcome;
}

std::vector<Audits::Outcome> Audits::Ended(int64_t now_ms) {
  std::vector<Outcome> ended;
  for (auto audit = open_.begin(); audit != open_.end();) {
    auto outcome = OutcomeOf(audit->first, &audit->second, now_ms);
    audit = outcome ? open_.erase(audit) : std::next(audit);
    if (outcome) ended.push_back(*std::move(outcome));
  }
  return ended;
}

std::optional<Audits::Outcome> Audits::EndedBy(const BatchId& batch, int64_t now_ms) {
  const auto audit = open_.find(batch);
  if (audit == open_.end() || !TwoHaveVoted(audit->second)) return std::nullopt;
  auto outcome = OutcomeOf(batch, &audit->second, now_ms);
  if (outcome) open_.erase(audit);
  return outcome;
}

}  // namespace dslide
