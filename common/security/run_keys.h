// The keys of a run: RUN/keys, which only its owner may read.
//
//   keys/scheduler.key   the scheduler's own secret
//   keys/members         who may join (key_ring.h)
//   keys/NAME.key        what a member with the key of that name needs (member_key.h)
//   keys/lock            held by whoever changes them
//
// A new run has a key of each role, named after it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/data/file_lock.h"
#include "common/security/key_ring.h"
#include "common/security/member_key.h"

namespace dslide {

class RunKeys {
 public:
  static bool Exist(const std::string& run_directory);
  // Those of a run that has them. Errors name the file.
  static Result<RunKeys> Open(const std::string& run_directory);
  // Those of a run; draws them if it has none.
  static Result<RunKeys> OpenOrDraw(const std::string& run_directory, int64_t now_s);

  const KeyPair& scheduler() const { return scheduler_; }
  const KeyRing& ring() const { return ring_; }

  // Writes where the scheduler is into the key files, for members that join from now on.
  Status Publish(const std::string& scheduler_address);
  // Reads the members' keys again if their file has changed. False: it has not.
  Result<bool> Refresh();

  // The member key for a name. It lacks the secret key if this machine does not have it, and the
  // scheduler's address until the scheduler listens. Errors (kBadInput): no key has the
  // name.
  Result<MemberKey> KeyOf(const std::string& name) const;

  // Adds the public key `own`, or draws a key and writes its file; writes the ring. Returns
  // KeyOf(). Errors (kBadInput): a name that has a key already; KeyRing::Allow's.
  Result<MemberKey> Allow(const Grant& grant, const std::optional<PublicKey>& own);
  Status Revoke(const std::string& name);
  Status Quarantine(const PublicKey& key, std::vector<uint32_t> accusers, int64_t now_s);
  // As KeyRing's; the ring is written only where a quarantine ends.
  Result<std::vector<std::string>> LiftUnfounded();
  // Draws another key for a name, for as long as the one before was to count, and without its
  // quarantine; the earlier ones end at `until_s`.
  Result<MemberKey> Rotate(const std::string& name, int64_t now_s, int64_t until_s);

  std::string FileOf(const std::string& name) const;

 private:
  explicit RunKeys(std::string directory) : directory_(std::move(directory)) {}
  std::string RingPath() const { return directory_ + "/members"; }
  Result<FileLock> Lock() const;
  // Reads the ring anew, changes it and writes it, while no other process does; then the key that
  // the change has drawn takes its place. A change that fails leaves the ring and the files as they
  // were, unless it is that last step: then the key is in NAME.key.drawn.
  Status Change(const std::function<Status()>& change);
  Status Add(Grant grant, const std::optional<PublicKey>& own, MemberKey* key);
  bool HasName(const std::string& name) const;
  // The parts of a member key that all members have. No address until the scheduler listens.
  Result<MemberKey> Invitation() const;
  Status WriteKeyOf(const std::string& name, const std::string& suffix, const MemberKey& key) const;

  std::string directory_;
  std::string drawn_;  // whose key the last change has drawn; "": nobody's
  KeyPair scheduler_;
  KeyRing ring_;
  std::string ring_version_;  // of the file that was read
};

}  // namespace dslide
