#include "scheduler/access_control.h"

#include "common/base/log.h"

namespace dslide {

AccessControl::AccessControl(RunKeys keys, int64_t now_s) : keys_(std::move(keys)) {
  valid_ = Valid(now_s);
  holder_.Set(valid_);
}

AccessList AccessControl::Valid(int64_t now_s) const {
  AccessList list;
  for (const Grant& grant : keys_.ring().grants()) {
    if (!grant.ExpiredAt(now_s)) list.keys.push_back({TextOf(grant.key), grant.role});
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

std::string AccessControl::Check(const PeerId& peer, const PublicKey& key, const Message& message) {
  std::string why = holder_.WhyRefused(key, message, Receiver::kScheduler);
  if (why.empty() && std::holds_alternative<Join>(message.body)) {
    joined_[peer] = *holder_.RoleOf(key);
  }
  return why;
}

std::optional<AccessList> AccessControl::ListFor(const PeerId& peer) const {
  const auto found = joined_.find(peer);
  if (found == joined_.end()) return std::nullopt;
  AccessList list;
  if (found->second == KeyRole::kServer) {
    list = valid_;
    list.keys.push_back({TextOf(own().public_key), KeyRole::kScheduler});
    return list;
  }
  for (const AccessKey& key : valid_.keys) {
    if (key.role == KeyRole::kServer) list.keys.push_back(key);
  }
  return list;
}

std::vector<PeerId> AccessControl::Joined() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, role] : joined_) peers.push_back(peer);
  return peers;
}

std::string AccessControl::KeyNameOf(Incarnation member) const {
  const std::optional<PublicKey> key = holder_.KeyOf(member);
  const Grant* grant = key ? keys_.ring().Find(*key) : nullptr;
  return grant == nullptr ? "" : grant->name;
}

}  // namespace dslide
