// CurveZMQ keys (RFC 26/CurveZMQ): X25519 key pairs of 32 bytes each.
//
// As text a key has 43 characters of base64url (RFC 4648, section 5, without padding), which need
// no quotes in a shell, a URL or an INI file.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace dslide {

constexpr size_t kKeyBytes = 32;

struct PublicKey {
  std::array<uint8_t, kKeyBytes> bytes = {};
  auto operator<=>(const PublicKey&) const = default;
};

// Erased from memory when it goes.
class SecretKey {
 public:
  SecretKey() = default;
  explicit SecretKey(const std::array<uint8_t, kKeyBytes>& bytes) : bytes_(bytes) {}
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  const std::array<uint8_t, kKeyBytes>& bytes() const { return bytes_; }

 private:
  std::array<uint8_t, kKeyBytes> bytes_ = {};
};

// What the holder of a key may be.
enum class KeyRole : uint8_t { kServer, kWorker, kObserver, kOperator, kScheduler };
// "server", "worker", "observer", "operator", "scheduler"
std::string_view NameOf(KeyRole role);
// nullopt: no role that a key is given for.
std::optional<KeyRole> KeyRoleFrom(std::string_view name);

struct KeyPair {
  PublicKey public_key;
  SecretKey secret_key;
};

KeyPair DrawKeyPair();
KeyPair KeyPairOf(const SecretKey& secret);

std::string TextOf(const PublicKey& key);
std::string TextOf(const SecretKey& key);
// nullopt: no key.
std::optional<PublicKey> PublicKeyFrom(std::string_view text);
std::optional<SecretKey> SecretKeyFrom(std::string_view text);

// What logs and lists show of a key.
std::string ShortTextOf(const PublicKey& key);

// The upper half of the incarnations of a key's members. A key ring holds no two keys with the same
// one, so that an incarnation tells its key.
uint32_t FingerprintOf(const PublicKey& key);
inline uint32_t FingerprintOf(Incarnation incarnation) {
  return static_cast<uint32_t>(incarnation.value >> 32);
}
// A new incarnation of a key's member; of any, if there is no key.
Incarnation DrawIncarnation(const std::optional<KeyPair>& keys);

}  // namespace dslide
