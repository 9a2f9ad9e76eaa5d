#include "scheduler/access_control.h"

#include <fmt/format.h>

#include <set>

#include "common/base/log.h"
#include "common/base/plural.h"

namespace dslide {

AccessControl::AccessControl(RunKeys keys, int64_t now_s) : keys_(std::move(keys)) {
  valid_ = Valid(now_s);
  holder_.Set(valid_);
}

AccessList AccessControl::Valid(int64_t now_s) const {
  AccessList list;
  for (const Grant& grant : keys_.ring().grants()) {
    if (grant.CountsAt(now_s)) list.keys.push_back({TextOf(grant.key), grant.role});
  }
  return list;
}

bool AccessControl::Refresh(int64_t now_s) {
  if (const Result<bool> read = keys_.Refresh(); !read.ok()) {
    LogWarning(read.error().message + "; the keys of before hold");
  }
  AccessList valid = Valid(now_s);
  if (valid == valid_) return false;
  valid_ = std::move(valid);
  holder_.Set(valid_);
  return true;
}

std::optional<ErrorReply> AccessControl::Check(const PeerId& peer, const PublicKey& key,
                                               const Message& message, const Roster& roster,
                                               int64_t now_s) {
  const bool joins = std::holds_alternative<Join>(message.body);
  const std::string why = holder_.WhyRefused(key, message, Receiver::kScheduler);
  if (!why.empty()) {
    // A member ends when its Join is refused for good, and a fenced one joins again.
    const bool is_out = !holder_.RoleOf(key).has_value();
    return ErrorReply{joins    ? ErrorCode::kIncompatible
                      : is_out ? ErrorCode::kFenced
                               : ErrorCode::kRefused,
                      why};
  }
  if (!joins) return std::nullopt;
  const Grant* grant = keys_.ring().Find(key);
  if (grant != nullptr && grant->members > 0) {
    uint32_t others = 0;
    for (const Role role : {Role::kServer, Role::kWorker, Role::kObserver}) {
      for (const Member* member : roster.Of(role)) {
        others += FingerprintOf(member->incarnation) == FingerprintOf(key) &&
                  member->incarnation != message.envelope.incarnation;
      }
    }
    if (others >= grant->members) {
      return ErrorReply{ErrorCode::kRefused,
                        fmt::format("the key {} is for {} at once", grant->name,
                                    Plural(grant->members, "member"))};
    }
  }
  joined_[peer] = {*holder_.RoleOf(key), now_s};
  return std::nullopt;
}

// A server is no member while the scheduler tries to reach it, and asks again every two seconds.
void AccessControl::KeepOnly(const Roster& roster, int64_t now_s) {
  constexpr int64_t kAskingS = 30;
  std::set<PeerId> peers;
  for (const Role role : {Role::kServer, Role::kWorker, Role::kObserver}) {
    for (const Member* member : roster.Of(role)) peers.insert(member->peer);
  }
  std::erase_if(joined_, [&](const auto& one) {
    return !peers.contains(one.first) && now_s - one.second.joined_s > kAskingS;
  });
}

std::optional<AccessList> AccessControl::ListFor(const PeerId& peer) const {
  const auto found = joined_.find(peer);
  if (found == joined_.end()) return std::nullopt;
  AccessList list;
  if (found->second.role == KeyRole::kServer) {
    list = valid_;
    list.keys.push_back({TextOf(own().public_key), KeyRole::kScheduler});
    return list;
  }
  for (const AccessKey& key : valid_.keys) {
    if (key.role == KeyRole::kServer) list.keys.push_back(key);
  }
  return list;
}

std::string AccessControl::NameOf(const PublicKey& key) const {
  const Grant* grant = keys_.ring().Find(key);
  return grant == nullptr ? "" : grant->name;
}

std::vector<PeerId> AccessControl::Joined() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, connection] : joined_) peers.push_back(peer);
  return peers;
}

void AccessControl::Quarantine(Incarnation member, int64_t now_s) {
  const std::optional<PublicKey> key = holder_.KeyOf(member);
  if (!key) return;
  const Status written = keys_.Quarantine(*key, now_s);
  if (!written.ok()) LogWarning(written.error().message);
  LogWarning(fmt::format("the key {} is in quarantine", ShortTextOf(*key)));
}

std::vector<Incarnation> AccessControl::Outcasts(const Roster& roster) const {
  std::vector<Incarnation> outcasts;
  for (const Role role : {Role::kServer, Role::kWorker, Role::kObserver}) {
    for (const Member* member : roster.Of(role)) {
      if (!holder_.KeyOf(member->incarnation)) outcasts.push_back(member->incarnation);
    }
  }
  return outcasts;
}

}  // namespace dslide
