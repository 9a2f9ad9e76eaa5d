// The keys that count now: whom a process lets in, and whom it believes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/net/permissions.h"
#include "common/wire/messages.h"

namespace dslide {

// Connections that were shut down, because they held too much or were too many.
struct Closings {
  uint64_t count = 0;
  std::string last;  // of the last one: its address, and why
};

// Connections that were not let in.
struct Refusals {
  uint64_t count = 0;
  std::optional<PublicKey> last_key;  // of the last one
};

// Thread-safe: ZeroMQ's authentication asks it from a thread of its own.
class AccessListHolder {
 public:
  // Replaces all keys.
  void Set(const AccessList& keys);

  std::optional<KeyRole> RoleOf(const PublicKey& key) const;
  // The key of a member by its incarnation; nullopt: of no key here.
  std::optional<PublicKey> KeyOf(Incarnation member) const;

  // "" or why a message is not taken: its key does not count, its incarnation is not the key's, or
  // the key's role may not say that.
  std::string WhyRefused(const PublicKey& key, const Message& message, Receiver receiver) const;

 private:
  struct Entry {
    PublicKey key;
    KeyRole role = KeyRole::kObserver;
  };
  std::optional<Entry> Find(const PublicKey& key) const;

  mutable Mutex mutex_;
  std::map<uint32_t, Entry> entries_ DSLIDE_GUARDED_BY(mutex_);  // by fingerprint
};

}  // namespace dslide
