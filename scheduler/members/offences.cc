#include "scheduler/members/offences.h"

#include <algorithm>

#include "common/security/keys.h"

namespace dslide {
namespace {

constexpr size_t kMostKeys = 4096;  // members with offences, and members with complaints

}  // namespace

uint32_t Offences::IdentityOf(Incarnation member) {
  const uint32_t fingerprint = FingerprintOf(member);
  return fingerprint != 0 ? fingerprint : static_cast<uint32_t>(member.value);
}

std::optional<Offences::Accusers> Offences::Note(Incarnation member, const Evidence& evidence,
                                                 int64_t now_ms) {
  total_++;
  if (!evidence) return std::nullopt;
  const auto forget = [&](std::vector<Counted>* of_member) {
    std::erase_if(*of_member, [&](const Counted& one) { return now_ms - one.at_ms > kWithinMs; });
  };
  if (counted_.size() >= kMostKeys) {
    for (auto& [key, of_member] : counted_) forget(&of_member);
    std::erase_if(counted_, [](const auto& entry) { return entry.second.empty(); });
    if (counted_.size() >= kMostKeys) counted_.erase(counted_.begin());
  }
  std::vector<Counted>& of_member = counted_[IdentityOf(member)];
  forget(&of_member);
  of_member.push_back({now_ms, *evidence});
  if (of_member.size() < kMost) return std::nullopt;
  Accusers accusers;
  for (const Counted& one : of_member) {
    accusers.insert(one.accusers.begin(), one.accusers.end());
  }
  counted_.erase(IdentityOf(member));
  return accusers;
}

Offences::Accusers Offences::Complain(Incarnation server, Incarnation member, int64_t now_ms) {
  const auto is_old = [&](const auto& complaint) { return now_ms - complaint.second > kDoubtMs; };
  for (auto& [key, of_member] : complaints_) std::erase_if(of_member, is_old);
  std::erase_if(complaints_, [](const auto& entry) { return entry.second.empty(); });
  if (complaints_.size() >= kMostKeys && !complaints_.contains(IdentityOf(member))) {
    complaints_.erase(complaints_.begin());
  }
  std::map<uint32_t, int64_t>& of_member = complaints_[IdentityOf(member)];
  of_member[IdentityOf(server)] = now_ms;
  Accusers accusers;
  for (const auto& [by, at_ms] : of_member) {
    if (now_ms - at_ms <= kTogetherMs) accusers.insert(by);
  }
  if (accusers.size() < 2) return {};
  // Another offence needs other complaints.
  for (const uint32_t by : accusers) of_member[by] = now_ms - kTogetherMs - 1;
  return accusers;
}

void Offences::Slow(Incarnation member, int64_t now_ms) {
  std::erase_if(slowed_, [&](const auto& entry) { return now_ms - entry.second > kSlowMs; });
  if (slowed_.size() >= kMostKeys) slowed_.erase(slowed_.begin());
  slowed_[IdentityOf(member)] = now_ms;
}

bool Offences::IsSlowed(Incarnation member, int64_t now_ms) const {
  const auto found = slowed_.find(IdentityOf(member));
  return found != slowed_.end() && now_ms - found->second <= kSlowMs;
}

bool Offences::IsDoubted(Incarnation member, int64_t now_ms) const {
  const auto found = complaints_.find(IdentityOf(member));
  if (found == complaints_.end()) return false;
  const auto complains_of_others = [&](uint32_t server) {
    return std::ranges::any_of(complaints_, [&](const auto& other) {
      const auto by = other.second.find(server);
      return other.first != found->first && by != other.second.end() &&
             now_ms - by->second <= kDoubtMs;
    });
  };
  return std::ranges::any_of(found->second, [&](const auto& complaint) {
    return now_ms - complaint.second <= kDoubtMs && !complains_of_others(complaint.first);
  });
}

}  // namespace dslide
