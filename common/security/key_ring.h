// The keys that may join a run, as a file that people can read:
//
//   role name key added=TIME expires=TIME members=COUNT [quarantined=TIME [by=SERVERS]]
//
// a line a key. A key in quarantine has lied, and does not count. To lift the quarantine, remove
// quarantined=TIME and by=SERVERS. SERVERS are the accusers, by the fingerprints of their keys, 8
// hexadecimal digits each, with commas: the quarantine ends when one of these keys is revoked or
// put into quarantine itself. TIME is 2026-11-23T12:00:00Z or never, COUNT the members that may
// join by the key at once, 0 for any number. Several keys may have one name: an old one that is
// being replaced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/security/keys.h"

namespace dslide {

struct Grant {
  KeyRole role = KeyRole::kWorker;
  std::string name;
  PublicKey key;
  int64_t added_s = 0;    // seconds since 1970, UTC
  int64_t expires_s = 0;  // 0: never
  uint32_t members = 0;   // at once; 0: any number

  int64_t quarantined_s = 0;            // seconds since 1970, UTC; 0 outside of quarantine
  std::vector<uint32_t> accusers = {};  // of a key in quarantine

  bool CountsAt(int64_t now_s) const { return !ExpiredAt(now_s) && quarantined_s == 0; }
  bool ExpiredAt(int64_t now_s) const { return expires_s != 0 && expires_s <= now_s; }
};

class KeyRing {
 public:
  // Errors (kBadInput) name the file and the line.
  static Result<KeyRing> Read(const std::string& path);
  // For its owner's eyes only. Errors (kFailed) name the file.
  Status Write(const std::string& path) const;

  const std::vector<Grant>& grants() const { return grants_; }
  const Grant* Find(const PublicKey& key) const;  // null: none
  // Errors (kBadInput): a name that is none, a key that is here already or has the fingerprint of
  // another, a name that a key of another role has.
  Status Allow(const Grant& grant);
  // Takes back all keys of a name. Errors (kBadInput): there is none.
  Status Revoke(const std::string& name);
  // Errors (kBadInput): there is no such key.
  Status Quarantine(const PublicKey& key, std::vector<uint32_t> accusers, int64_t now_s);
  // Whether there is a quarantine with an accuser whose key was revoked or is in quarantine.
  bool HasUnfounded() const;
  // Ends these quarantines. Returns the names of the keys that are free again.
  std::vector<std::string> LiftUnfounded();
  // Lets the keys of a name end at a time, those that end later. Errors as above.
  Status Expire(const std::string& name, int64_t at_s);

 private:
  bool IsUnfounded(const Grant& grant) const;

  std::vector<Grant> grants_;
};

// "2026-11-23T12:00:00Z"; "never" for 0.
std::string TimeText(int64_t seconds);

}  // namespace dslide
