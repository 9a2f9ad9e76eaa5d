#include "common/security/keys.h"

#include <doctest/doctest.h>

#include <set>

namespace dslide::keys_test {
namespace {

// RFC 7748, section 6.1: Alice's key pair.
constexpr const char* kSecret = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo";
constexpr const char* kPublic = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo";

TEST_CASE("keys: the public key of a secret one, and their texts, as in RFC 7748 and RFC 4648") {
  const auto secret = SecretKeyFrom(kSecret);
  REQUIRE(secret);
  CHECK(secret->bytes()[0] == 0x77);
  CHECK(secret->bytes()[31] == 0x2a);
  const KeyPair keys = KeyPairOf(*secret);
  CHECK(keys.public_key.bytes[0] == 0x85);
  CHECK(keys.public_key.bytes[31] == 0x6a);
  CHECK(TextOf(keys.public_key) == kPublic);
  CHECK(TextOf(keys.secret_key) == kSecret);
  CHECK(PublicKeyFrom(kPublic) == keys.public_key);
  CHECK(ShortTextOf(keys.public_key) == "hSDwCYkw");
}

TEST_CASE("keys: what is no key is none") {
  const std::string good = kPublic;
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "A", good + "=", "+" + good.substr(1),
        " " + good.substr(1), good.substr(0, 42) + "p"}) {  // the last one has bits left over
    CAPTURE(bad);
    CHECK_FALSE(PublicKeyFrom(bad));
    CHECK_FALSE(SecretKeyFrom(bad));
  }
}

TEST_CASE("keys: drawn pairs differ, belong together and do not look like options") {
  std::set<PublicKey> drawn;
  for (int i = 0; i < 300; ++i) {
    const KeyPair keys = DrawKeyPair();
    CHECK(KeyPairOf(keys.secret_key).public_key == keys.public_key);
    CHECK_FALSE(TextOf(keys.public_key).starts_with('-'));
    drawn.insert(keys.public_key);
  }
  CHECK(drawn.size() == 300);
}

TEST_CASE("keys: an incarnation tells its key") {
  const KeyPair keys = KeyPairOf(*SecretKeyFrom(kSecret));
  CHECK(FingerprintOf(keys.public_key) == 0x8520f009);
  std::set<Incarnation> drawn;
  for (int i = 0; i < 100; ++i) {
    const Incarnation incarnation = DrawIncarnation(keys);
    CHECK(FingerprintOf(incarnation) == 0x8520f009);
    drawn.insert(incarnation);
  }
  CHECK(drawn.size() == 100);
  CHECK(DrawIncarnation(std::nullopt).value != 0);
}

TEST_CASE("keys: roles by name") {
  for (const KeyRole role :
       {KeyRole::kServer, KeyRole::kWorker, KeyRole::kObserver, KeyRole::kOperator}) {
    CHECK(KeyRoleFrom(NameOf(role)) == role);
  }
  CHECK_FALSE(KeyRoleFrom("scheduler"));  // no key is given for it
  CHECK_FALSE(KeyRoleFrom("Worker"));
  CHECK_FALSE(KeyRoleFrom(""));
}

}  // namespace
}  // namespace dslide::keys_test
