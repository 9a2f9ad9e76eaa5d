#include "scheduler/pass/audits.h"

#include <algorithm>

#include "common/base/random.h"

namespace dslide {

Audits::Audits(float share, uint64_t secret, int64_t patience_ms)
    : share_(share), secret_(secret), patience_ms_(patience_ms) {}

bool Audits::Begin(const BatchId& batch, uint64_t number, Incarnation worker, int64_t now_ms) {
  if (share_ <= 0.0f) return false;
  Random random(SubSeed(SubSeed(secret_, batch.epoch), number));
  if (random.Uniform() >= share_) return false;
  Audit& audit = open_[batch];
  audit.number = number;
  audit.first = worker;
  audit.asked.emplace(worker, now_ms);
  audit.since_ms = now_ms;
  return true;
}

std::optional<BatchId> Audits::Next(Incarnation worker, int64_t now_ms) {
  for (auto& [batch, audit] : open_) {
    if (audit.asked.contains(worker) || audit.asked.size() >= kMostExecutions) continue;
    // One at a time: the first one asked has to end, or its time to be over.
    std::vector<Incarnation> ended;
    for (const auto& [server, report] : audit.reports) {
      for (const uint64_t one : report.workers) ended.push_back({one});
    }
    const bool waits = std::ranges::any_of(audit.asked, [&](const auto& asked) {
      return asked.first != audit.first && std::ranges::find(ended, asked.first) == ended.end() &&
             now_ms - asked.second < patience_ms_;
    });
    if (waits) continue;
    audit.asked.emplace(worker, now_ms);
    audit.since_ms = now_ms;
    return batch;
  }
  return std::nullopt;
}

void Audits::Take(Incarnation server, const AuditReport& report) {
  const auto found = open_.find(report.batch);
  if (found != open_.end() && !report.workers.empty()) found->second.reports[server] = report;
}

std::optional<Audits::Outcome> Audits::OutcomeOf(const BatchId& batch, const Audit& audit,
                                                 const std::vector<Incarnation>& servers,
                                                 int64_t now_ms) const {
  Outcome outcome{batch, audit.number, {}, false, false, false};
  // The digests of each worker that all servers have reported, in their order.
  std::map<Incarnation, std::vector<uint64_t>> digests;
  for (const Incarnation server : servers) {
    const auto report = audit.reports.find(server);
    if (report == audit.reports.end()) continue;
    for (size_t i = 0; i < report->second.workers.size(); ++i) {
      digests[{report->second.workers[i]}].push_back(report->second.digests[i]);
    }
  }
  std::erase_if(digests, [&](const auto& entry) { return entry.second.size() != servers.size(); });
  std::map<std::vector<uint64_t>, size_t> votes;
  for (const auto& [worker, sent] : digests) votes[sent]++;
  const auto most = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; });
  if (most != votes.end() && most->second >= 2) {
    for (const auto& [worker, sent] : digests) {
      if (sent != most->first) outcome.liars.push_back(worker);
    }
    for (const auto& [server, report] : audit.reports) {
      const Incarnation first{report.workers.front()};
      if (std::ranges::find(outcome.liars, first) != outcome.liars.end())
        outcome.liar_counts = true;
    }
    return outcome;
  }
  const bool late = now_ms - audit.since_ms > patience_ms_;
  if (digests.size() < kMostExecutions && !late) return std::nullopt;
  (digests.size() >= 2 ? outcome.undecided : outcome.skipped) = true;
  return outcome;
}

std::vector<Audits::Outcome> Audits::Ended(const std::vector<Incarnation>& servers,
                                           int64_t now_ms) {
  std::vector<Outcome> ended;
  for (auto audit = open_.begin(); audit != open_.end();) {
    auto outcome = OutcomeOf(audit->first, audit->second, servers, now_ms);
    audit = outcome ? open_.erase(audit) : std::next(audit);
    if (outcome) ended.push_back(*std::move(outcome));
  }
  return ended;
}

}  // namespace dslide
