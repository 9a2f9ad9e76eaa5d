// What a member needs to join an encrypted run: where the scheduler is, by which key it is known,
// and the member's own key.
//
// A join string has all of it in one word, and lets whoever reads it join:
//   dslide://HOST:PORT/SCHEDULER_PUBLIC_KEY/MEMBER_SECRET_KEY
// Without the last part it invites a member that has a key of its own. A key file has lines
//   scheduler = tcp://HOST:PORT
//   scheduler_key = PUBLIC_KEY
//   secret_key = SECRET_KEY
// Any of them may be missing. Values and comments are as in common/config/quoted.h.
#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/security/keys.h"

namespace dslide {

struct MemberKey {
  std::string scheduler;  // tcp://HOST:PORT; empty: not said
  std::optional<PublicKey> scheduler_key;
  std::optional<SecretKey> secret_key;
};

bool IsJoinString(const std::string& text);
// Errors (kBadInput) never show the text, which is a secret.
Result<MemberKey> ParseJoinString(const std::string& text);
// REQUIRES an address and the scheduler's key.
std::string JoinString(const MemberKey& key);

// Errors (kBadInput) name the file. A file that others may read is refused.
Result<MemberKey> ReadKeyFile(const std::string& path);
// For its owner's eyes only (mode 0600). Errors (kFailed) name the file.
Status WriteKeyFile(const std::string& path, const MemberKey& key, const std::string& comment);

// How a member dials a peer: encrypted by both keys, or in plaintext if there are none.
struct CurvePeer {
  KeyPair own;
  PublicKey peer;
};
struct SchedulerAccess {
  std::string address;
  std::optional<CurvePeer> curve;  // none: plaintext

  std::optional<KeyPair> own() const { return curve ? std::optional(curve->own) : std::nullopt; }
};
// Whether DSLIDE_JOIN is set.
bool HasJoinVariable();
// From the options of a member: `scheduler` is an address, a join string, or file:///PATH of a file
// that has one of them (scheduler.address of a run directory); `key_file` a file; either may be
// empty. Both empty: the join string of the environment variable DSLIDE_JOIN. Errors (kBadInput)
// say what is missing; kTryLater: there is no such file yet.
Result<SchedulerAccess> AccessFrom(const std::string& scheduler, const std::string& key_file);

}  // namespace dslide
