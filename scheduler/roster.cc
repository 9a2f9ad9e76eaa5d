#include "scheduler/roster.h"

#include <fmt/core.h>

#include <algorithm>

namespace dslide {
namespace {

// A name from outside made fit for terminals, logs, JSON and file names.
std::string PlainName(std::string name) {
  constexpr size_t kLongest = 64;
  if (name.size() > kLongest) name.resize(kLongest);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace

Member& Roster::Add(const Join& join, Incarnation incarnation, const PeerId& peer, int64_t now_ms) {
  const auto [at, added] = members_.try_emplace(incarnation);
  Member& member = at->second;
  member.peer = peer;
  member.heard_ms = now_ms;
  if (!added) return member;
  const auto taken = [&](const std::string& name) {
    return std::any_of(order_.begin(), order_.end(),
                       [&](Incarnation i) { return members_.at(i).name == name; });
  };
  const std::string asked = PlainName(join.name);
  const char* by_role = join.role == Role::kServer ? "server" : "worker";
  const std::string base = asked.empty() ? by_role : asked;
  std::string name = base;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}-{}", base, n);
  member.incarnation = incarnation;
  member.role = join.role;
  member.name = name;
  member.address = join.address;
  member.cores = join.cores;
  order_.push_back(incarnation);
  return member;
}

Member* Roster::Heard(Incarnation incarnation, const PeerId& peer, int64_t now_ms) {
  const auto found = members_.find(incarnation);
  if (found == members_.end()) return nullptr;
  found->second.peer = peer;
  found->second.heard_ms = now_ms;
  return &found->second;
}

const Member* Roster::Find(Incarnation incarnation) const {
  const auto found = members_.find(incarnation);
  return found == members_.end() ? nullptr : &found->second;
}

void Roster::Remove(Incarnation incarnation) {
  const auto found = members_.find(incarnation);
  if (found == members_.end()) return;
  departed_cpu_seconds_ += found->second.heartbeat.cpu_seconds;
  departed_rss_bytes_ += found->second.heartbeat.peak_rss_bytes;
  std::erase(order_, incarnation);
  members_.erase(found);
}

size_t Roster::Count(Role role) const { return Of(role).size(); }

std::vector<const Member*> Roster::Of(Role role) const {
  std::vector<const Member*> found;
  for (const Incarnation incarnation : order_) {
    const Member& member = members_.at(incarnation);
    if (member.role == role) found.push_back(&member);
  }
  return found;
}

std::vector<const Member*> Roster::Silent(Role role, int64_t now_ms, int64_t silence_ms) const {
  std::vector<const Member*> found = Of(role);
  std::erase_if(found, [&](const Member* m) { return now_ms - m->heard_ms <= silence_ms; });
  return found;
}

double Roster::cpu_seconds() const {
  double sum = departed_cpu_seconds_;
  for (const auto& [incarnation, member] : members_) sum += member.heartbeat.cpu_seconds;
  return sum;
}

uint64_t Roster::peak_rss_bytes() const {
  uint64_t sum = departed_rss_bytes_;
  for (const auto& [incarnation, member] : members_) sum += member.heartbeat.peak_rss_bytes;
  return sum;
}

}  // namespace dslide
