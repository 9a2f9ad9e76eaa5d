#include "scheduler/members/roster.h"

#include <fmt/core.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <utility>

namespace dslide {
namespace {

constexpr int64_t kObserverSilenceMs = 30000;  // nothing depends on observers

}  // namespace

std::string PlainName(std::string name) {
  constexpr size_t kLongest = 64;  // as in join_limits.h, whose user refuses longer ones
  if (name.size() > kLongest) name.resize(kLongest);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

Member& Roster::Add(const Join& join, Incarnation incarnation, const PeerId& peer, int64_t now_ms) {
  const auto [at, added] = members_.try_emplace(incarnation);
  Member& member = at->second;
  if (!added) {
    SetPeer(&member, peer);
    member.life.Heard(now_ms);
    return member;
  }
  const std::string asked = PlainName(join.name);
  const char* by_role = join.role == Role::kServer ? "server" : "worker";
  const std::string base = asked.empty() ? by_role : asked;
  std::string name = base;
  if (names_.contains(base)) {
    uint64_t& number = next_number_.try_emplace(base, 2).first->second;
    do {
      name = fmt::format("{}-{}", base, number++);
    } while (names_.contains(name));
  }
  names_.insert(name);
  member.incarnation = incarnation;
  SetPeer(&member, peer);
  member.role = join.role;
  member.name = name;
  member.asked_name = asked;
  member.address = join.address;
  member.cores = join.cores;
  member.memory_bytes = join.memory_bytes;
  member.disk_bytes = join.disk_bytes;
  member.life = FailureDetector(heartbeat_ms_, now_ms);
  member.joined_ms = now_ms;
  member.rank = next_rank_++;
  MembersOf(member.role).push_back(&member);
  changes_++;
  return member;
}

Member* Roster::Heard(Incarnation incarnation, const PeerId& peer, int64_t now_ms) {
  Member* member = Find(incarnation);
  if (member == nullptr) return nullptr;
  SetPeer(member, peer);
  member->life.Heard(now_ms);
  return member;
}

const Member* Roster::Find(Incarnation incarnation) const {
  const auto found = members_.find(incarnation);
  return found == members_.end() ? nullptr : &found->second;
}

Member* Roster::Find(Incarnation incarnation) {
  return const_cast<Member*>(std::as_const(*this).Find(incarnation));
}

void Roster::Remove(Incarnation incarnation) {
  const auto found = members_.find(incarnation);
  if (found == members_.end()) return;
  departed_[static_cast<size_t>(found->second.role)].Add(found->second.heartbeat);
  const std::string name = found->second.name;
  SetPeer(&found->second, "");
  std::erase(MembersOf(found->second.role), &found->second);
  members_.erase(found);
  changes_++;
  names_.erase(name);
  Member* heir = nullptr;
  for (const Members& members : by_role_) {
    const auto first = std::ranges::find(members, name, &Member::asked_name);
    if (first != members.end() && (heir == nullptr || (*first)->rank < heir->rank)) heir = *first;
  }
  if (heir != nullptr) {
    names_.erase(heir->name);
    heir->name = name;
    names_.insert(name);
  }
  next_number_.clear();  // names have become free
}

const Member* Roster::At(const PeerId& peer) const {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : Find(found->second);
}

size_t Roster::CountAt(const PeerId& peer) const { return by_peer_.count(peer); }

// "": none.
void Roster::SetPeer(Member* member, const PeerId& peer) {
  if (member->peer == peer) return;
  const auto [first, last] = by_peer_.equal_range(member->peer);
  const auto before = std::find_if(
      first, last, [&](const auto& entry) { return entry.second == member->incarnation; });
  if (before != last) by_peer_.erase(before);
  if (!peer.empty()) by_peer_.emplace(peer, member->incarnation);
  member->peer = peer;
}

std::vector<const Member*> Roster::Of(Role role) const {
  const Members& members = MembersOf(role);
  return {members.begin(), members.end()};
}

std::vector<const Member*> Roster::Seated() const {
  std::vector<const Member*> found = Of(Role::kServer);
  std::erase_if(found, [](const Member* m) { return !m->seated; });
  return found;
}

bool Roster::AllReady() const {
  return std::ranges::all_of(MembersOf(Role::kServer),
                             [](const Member* m) { return !m->seated || m->ready; });
}

std::vector<const Member*> Roster::Spares() const {
  std::vector<const Member*> found = Of(Role::kServer);
  std::erase_if(found, [](const Member* m) { return m->seated || m->draining; });
  return found;
}

std::vector<const Member*> Roster::Newcomers() const {
  const std::vector<const Member*> seated = Seated();
  std::vector<const Member*> found = Spares();
  std::erase_if(found, [&](const Member* spare) {
    return std::any_of(seated.begin(), seated.end(), [&](const Member* server) {
      return !spare->asked_name.empty() && spare->asked_name == server->asked_name &&
             server->life.heard_ms() <= spare->joined_ms;
    });
  });
  return found;
}

std::vector<const Member*> Roster::Dead(int64_t now_ms) const {
  std::vector<const Member*> dead;
  for (const Members& members : by_role_) {
    const auto suspect = [&](const Member* member) { return member->life.Suspect(now_ms); };
    const bool observers = !members.empty() && members[0]->role == Role::kObserver;
    if (!observers && std::ranges::none_of(members, suspect)) continue;
    std::set<std::string_view> later;  // names that members after this one have asked for
    for (const Member* member : std::views::reverse(members)) {
      const bool silent = member->role == Role::kObserver
                              ? member->life.SilentMs(now_ms) > kObserverSilenceMs
                              : member->life.Dead(now_ms);
      const bool replaced = suspect(member) && later.contains(member->asked_name);
      if (replaced || silent) dead.push_back(member);
      if (!member->asked_name.empty()) later.insert(member->asked_name);
    }
  }
  std::ranges::sort(dead, {}, &Member::rank);
  return dead;
}

double Roster::BatchMs() const {
  std::vector<uint32_t> longest_us;
  for (const Member* worker : MembersOf(Role::kWorker)) {
    if (worker->batch_us > 0) longest_us.push_back(worker->batch_us);
  }
  if (longest_us.empty()) return 0;
  const auto middle = longest_us.begin() + static_cast<std::ptrdiff_t>((longest_us.size() - 1) / 2);
  std::nth_element(longest_us.begin(), middle, longest_us.end());
  return *middle / 1000.0;
}

void RoleUsage::Add(const Heartbeat& heartbeat) {
  cpu_seconds += heartbeat.cpu_seconds;
  rss_bytes += heartbeat.peak_rss_bytes;
  largest_rss_bytes = std::max(largest_rss_bytes, heartbeat.peak_rss_bytes);
}

RoleUsage Roster::Used(Role role) const {
  RoleUsage used = departed_[static_cast<size_t>(role)];
  for (const Member* member : MembersOf(role)) used.Add(member->heartbeat);
  return used;
}

double Roster::cpu_seconds() const {
  double sum = 0;
  for (const Role role : {Role::kServer, Role::kWorker, Role::kObserver}) {
    sum += Used(role).cpu_seconds;
  }
  return sum;
}

uint64_t Roster::peak_rss_bytes() const {
  uint64_t sum = 0;
  for (const Role role : {Role::kServer, Role::kWorker, Role::kObserver}) {
    sum += Used(role).rss_bytes;
  }
  return sum;
}

}  // namespace dslide
