#include "scheduler/access_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/base/plural.h"
#include "common/log/log.h"
#include "scheduler/base/events.h"

namespace dslide {

AccessControl::AccessControl(RunKeys keys, int64_t now_s) : keys_(std::move(keys)) {
  valid_ = Valid(now_s);
  holder_.Set(valid_);
}

AccessList AccessControl::Valid(int64_t now_s) const {
  AccessList list;
  for (const Grant& grant : keys_.ring().grants()) {
    if (unwritten_.contains(TextOf(grant.key))) continue;
    if (grant.CountsAt(now_s)) list.keys.push_back({TextOf(grant.key), grant.role});
  }
  return list;
}

bool AccessControl::Refresh(int64_t now_s) {
  if (const Result<bool> read = keys_.Refresh(); !read.ok()) {
    LogWarning({event::kKeysUnreadable, read.error().message + "; the keys of before hold"});
  }
  const Result<std::vector<std::string>> lifted = keys_.LiftUnfounded();
  if (!lifted.ok()) {
    LogWarning(
        {event::kKeysUnreadable, lifted.error().message + "; the quarantines in it continue"});
  }
  for (const std::string& name : lifted.ok() ? *lifted : std::vector<std::string>()) {
    LogWarning({event::kQuarantineLifted,
                fmt::format("the quarantine of the key {} has ended: the key of an accuser was "
                            "revoked or is in quarantine itself",
                            name),
                {{"key", name}}});
  }
  AccessList valid = Valid(now_s);
  if (valid == valid_) return false;
  valid_ = std::move(valid);
  holder_.Set(valid_);
  told_.clear();
  return true;
}

std::optional<ErrorReply> AccessControl::Check(const PublicKey& key, const Message& message,
                                               const Roster& roster) const {
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
  return std::nullopt;
}

std::optional<AccessList> AccessControl::ListFor(Role role) const {
  AccessList list;
  switch (role) {
    case Role::kServer:
      list.keys = {{TextOf(own().public_key), KeyRole::kScheduler}};
      list.keys.insert(list.keys.end(), valid_.keys.begin(), valid_.keys.end());
      return list;
    case Role::kWorker:
      std::ranges::copy_if(valid_.keys, std::back_inserter(list.keys),
                           [](const AccessKey& key) { return key.role == KeyRole::kServer; });
      return list;
    case Role::kObserver:
      break;
  }
  return std::nullopt;
}

bool AccessControl::Told(const Member& member) const {
  const auto found = told_.find(member.incarnation);
  return found != told_.end() && found->second == member.peer;
}

void AccessControl::KeepOnly(const Roster& roster) {
  std::erase_if(told_, [&](const auto& one) { return roster.Find(one.first) == nullptr; });
}

std::string AccessControl::NameOf(const PublicKey& key) const {
  const Grant* grant = keys_.ring().Find(key);
  return grant == nullptr ? "" : grant->name;
}

void AccessControl::Quarantine(Incarnation member, std::vector<uint32_t> accusers, int64_t now_s) {
  const std::optional<PublicKey> key = holder_.KeyOf(member);
  if (!key) return;
  const Status written = keys_.Quarantine(*key, std::move(accusers), now_s);
  if (!written.ok()) {
    unwritten_.insert(TextOf(*key));
    LogWarning({event::kKeysUnreadable,
                written.error().message + "; the quarantine ends with this scheduler"});
  }
  const std::string name = ShortTextOf(*key);
  LogWarning(
      {event::kKeyQuarantined, fmt::format("the key {} is in quarantine", name), {{"key", name}}});
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
