// Join strings, key files and key rings.
#include "common/security/key_ring.h"
#include "common/security/member_key.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::keys_fuzz {
namespace {

using fuzz::Inputs;

constexpr const char* kSecret = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo";  // of RFC 7748
constexpr const char* kPublic = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo";

void ReadTexts(std::string_view input) {
  if (const std::optional<PublicKey> key = PublicKeyFrom(input)) {
    DSLIDE_CHECK(TextOf(*key) == input);
  }
  if (const std::optional<SecretKey> key = SecretKeyFrom(input)) {
    DSLIDE_CHECK(TextOf(*key) == input);
  }
  if (const std::optional<KeyRole> role = KeyRoleFrom(input)) DSLIDE_CHECK(NameOf(*role) == input);
  const std::string text(input);
  if (!IsJoinString(text)) return;
  const Result<MemberKey> key = ParseJoinString(text);
  if (!fuzz::Accepted(key)) return;
  DSLIDE_CHECK(JoinString(*key) == text);
}

bool ReadKey(const std::string& path) {
  const Result<MemberKey> key = ReadKeyFile(path);
  if (!fuzz::Accepted(key)) return false;
  const std::string copy = fuzz::InputDirectory() + "/copy.key";
  DSLIDE_CHECK(WriteKeyFile(copy, *key, "a key").ok());
  const Result<MemberKey> again = ReadKeyFile(copy);
  DSLIDE_CHECK(again.ok() && again->scheduler == key->scheduler);
  DSLIDE_CHECK(again->scheduler_key == key->scheduler_key);
  // A file without an address may be of a scheduler that is not ready yet.
  const Result<SchedulerAccess> access = AccessFrom("", path);
  if (access.ok() || access.error().kind != ErrorKind::kTryLater) (void)fuzz::Accepted(access);
  return true;
}

bool ReadRing(const std::string& path) {
  const Result<KeyRing> ring = KeyRing::Read(path);
  if (!fuzz::Accepted(ring)) return false;
  const std::string copy = fuzz::InputDirectory() + "/copy.ring";
  DSLIDE_CHECK(ring->Write(copy).ok());
  const Result<KeyRing> again = KeyRing::Read(copy);
  DSLIDE_CHECK(again.ok() && again->grants().size() == ring->grants().size());
  for (size_t i = 0; i < ring->grants().size(); ++i) {
    const Grant &a = ring->grants()[i], &b = again->grants()[i];
    DSLIDE_CHECK(a.role == b.role && a.name == b.name && a.key == b.key);
    DSLIDE_CHECK(a.added_s == b.added_s && a.expires_s == b.expires_s && a.members == b.members &&
                 a.quarantined_s == b.quarantined_s);
  }
  return true;
}

bool Run(std::string_view input) {
  ReadTexts(input);
  const std::string path = fuzz::InputFile(input);
  const bool key = ReadKey(path);
  const bool ring = ReadRing(path);
  return key || ring;
}

Inputs Seeds() {
  const std::string secret = kSecret, key = kPublic;
  return {"dslide://10.0.0.1:5555/" + key + "/" + secret,
          "dslide://[::1]:1/" + key,
          key,
          "# comment\nscheduler = tcp://a:1\nscheduler_key = " + key + "\nsecret_key = " + secret,
          "worker w1 " + key + " added=2026-11-23T12:00:00Z expires=never members=3\n",
          "server s " + key +
              " added=2026-11-23T12:00:00Z expires=2027-01-01T00:00:00Z members=0 "
              "quarantined=2026-12-01T00:00:00Z\n",
          "operator",
          "worker w " + key + " added=2026-13-41T25:61:61Z expires=never members=1\n"};
}

const fuzz::Entered kEntered({"keys", Run, Seeds});

}  // namespace
}  // namespace dslide::keys_fuzz
