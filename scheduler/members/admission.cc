#include "scheduler/members/admission.h"

#include <fmt/core.h>

#include <algorithm>

namespace dslide {
namespace {

constexpr int64_t kProbeMs = 1000;           // between two requests to one address
constexpr int64_t kPatienceHeartbeats = 10;  // an address is tried for
constexpr int64_t kLeastPatienceMs = 3000;
constexpr int64_t kBarredMs = 60000;    // the first time
constexpr uint32_t kMostDoublings = 2;  // less than cluster.join_timeout_s in the end
constexpr int64_t kStrikeMs = 600000;   // a loss is remembered for

std::string WhyRefused(const Admission::Applicant& applicant, int64_t patience_ms) {
  return fmt::format(
      "{} at the advertised address {}; set --advertise to one at which the scheduler, the workers "
      "and the other servers reach this server",
      applicant.stranger_answered ? std::string("another process answers")
                                  : fmt::format("nobody answered for {} s", patience_ms / 1000),
      std::get<Join>(applicant.join.body).address);
}

}  // namespace

Admission::Admission(int64_t heartbeat_ms)
    : patience_ms_(std::max(kLeastPatienceMs, kPatienceHeartbeats * heartbeat_ms)) {}

bool Admission::Ask(const PeerId& from, const Message& message, int64_t now_ms) {
  if (!applicants_.contains(message.envelope.incarnation) && !MakeRoom(from)) return false;
  const auto [at, is_new] = applicants_.try_emplace(message.envelope.incarnation);
  Applicant& applicant = at->second;
  applicant.peer = from;
  applicant.join = message;
  if (!is_new) return true;
  applicant.since_ms = now_ms;
  applicant.probed_ms = now_ms - kProbeMs;
  return true;
}

// Room for one more of this connection.
bool Admission::MakeRoom(const PeerId& from) {
  std::map<PeerId, size_t> asking;
  for (const auto& [server, applicant] : applicants_) asking[applicant.peer]++;
  if (asking[from] >= kMostOfOne) return false;
  if (applicants_.size() < kMostApplicants) return true;
  const auto most = std::ranges::max_element(
      asking, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second <= asking[from] + 1) return false;
  auto oldest = applicants_.end();
  for (auto at = applicants_.begin(); at != applicants_.end(); ++at) {
    if (at->second.peer != most->first) continue;
    if (oldest == applicants_.end() || at->second.since_ms < oldest->second.since_ms) oldest = at;
  }
  applicants_.erase(oldest);
  return true;
}

std::optional<Admission::Applicant> Admission::Answered(Incarnation server, Incarnation who) {
  const auto found = applicants_.find(server);
  if (found == applicants_.end()) return std::nullopt;
  if (who != server) {
    found->second.stranger_answered = true;
    return std::nullopt;
  }
  return std::move(applicants_.extract(found).mapped());
}

bool Admission::Withdraw(const PeerId& from, Incarnation server) {
  const auto found = applicants_.find(server);
  if (found == applicants_.end() || found->second.peer != from) return false;
  applicants_.erase(found);
  return true;
}

std::vector<Admission::Probe> Admission::DueProbes(int64_t now_ms) {
  std::vector<Probe> due;
  for (auto& [server, applicant] : applicants_) {
    if (now_ms - applicant.probed_ms < kProbeMs) continue;
    applicant.probed_ms = now_ms;
    due.push_back({server, std::get<Join>(applicant.join.body).address});
  }
  return due;
}

std::vector<Admission::Refusal> Admission::Expire(int64_t now_ms) {
  std::vector<Refusal> refused;
  for (auto at = applicants_.begin(); at != applicants_.end();) {
    if (now_ms - at->second.since_ms < patience_ms_) {
      ++at;
      continue;
    }
    std::string why = WhyRefused(at->second, patience_ms_);
    refused.push_back({std::move(at->second), std::move(why)});
    at = applicants_.erase(at);
  }
  return refused;
}

// When there are too many, those go that have been forgiven for the longest time.
Admission::Barred& Admission::Remember(const std::string& of, int64_t now_ms) {
  if (!barred_.contains(of) && barred_.size() >= kMostBarred) {
    barred_.erase(std::ranges::min_element(barred_, [](const auto& a, const auto& b) {
      return a.second.until_ms < b.second.until_ms;
    }));
  }
  Barred& barred = barred_[of];
  barred.until_ms = std::max(barred.until_ms, now_ms);
  return barred;
}

void Admission::Strike(const std::string& of, const std::string& why, int64_t now_ms) {
  Barred& barred = Remember(of, now_ms);
  const bool again = barred.struck_ms && now_ms - *barred.struck_ms < kStrikeMs;
  barred.struck_ms = now_ms;
  if (again) Bar(of, why, now_ms);
}

void Admission::Bar(const std::string& of, const std::string& why, int64_t now_ms) {
  Barred& barred = Remember(of, now_ms);
  barred.why = why;
  barred.until_ms = now_ms + (kBarredMs << std::min(barred.times++, kMostDoublings));
}

std::string Admission::WhyBarred(const std::string& of, int64_t now_ms) const {
  const auto found = barred_.find(of);
  return found == barred_.end() || now_ms >= found->second.until_ms ? "" : found->second.why;
}

}  // namespace dslide
