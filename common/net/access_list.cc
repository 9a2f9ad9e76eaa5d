#include "common/net/access_list.h"

#include <fmt/format.h>

namespace dslide {

void AccessListHolder::Set(const AccessList& keys) {
  std::map<uint32_t, Entry> entries;
  for (const AccessKey& key : keys.keys) {
    const std::optional<PublicKey> known = PublicKeyFrom(key.key);
    if (known) entries.emplace(FingerprintOf(*known), Entry{*known, key.role});
  }
  const MutexLock lock(mutex_);
  entries_ = std::move(entries);
}

std::optional<AccessListHolder::Entry> AccessListHolder::Find(const PublicKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(FingerprintOf(key));
  if (found == entries_.end() || found->second.key != key) return std::nullopt;
  return found->second;
}

std::optional<KeyRole> AccessListHolder::RoleOf(const PublicKey& key) const {
  const std::optional<Entry> entry = Find(key);
  if (!entry) return std::nullopt;
  return entry->role;
}

std::optional<PublicKey> AccessListHolder::KeyOf(Incarnation member) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(FingerprintOf(member));
  if (found == entries_.end()) return std::nullopt;
  return found->second.key;
}

std::string AccessListHolder::WhyRefused(const PublicKey& key, const Message& message,
                                         Receiver receiver) const {
  const std::optional<Entry> entry = Find(key);
  if (!entry) return fmt::format("the key {} does not count here any more", ShortTextOf(key));
  if (FingerprintOf(message.envelope.incarnation) != FingerprintOf(key)) {
    return fmt::format("a holder of the key {} speaks for another member", ShortTextOf(key));
  }
  return WhyForbidden(entry->role, message.body, receiver);
}

}  // namespace dslide
