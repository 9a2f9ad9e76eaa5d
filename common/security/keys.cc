#include "common/security/keys.h"

#include <sodium.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/process.h"

namespace dslide {
namespace {

static_assert(kKeyBytes == crypto_box_PUBLICKEYBYTES && kKeyBytes == crypto_box_SECRETKEYBYTES);

constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr size_t kTextBytes = 43;
constexpr size_t kShortBytes = 8;

using KeyBytes = std::array<uint8_t, kKeyBytes>;

struct Named {
  KeyRole role;
  std::string_view name;
};
constexpr std::array kNames = {Named{KeyRole::kServer, "server"}, Named{KeyRole::kWorker, "worker"},
                               Named{KeyRole::kObserver, "observer"},
                               Named{KeyRole::kOperator, "operator"},
                               Named{KeyRole::kScheduler, "scheduler"}};

void StartSodium() {
  static const bool started = sodium_init() >= 0;
  DSLIDE_CHECK(started);
}

std::string Encode(const KeyBytes& bytes) {
  std::string text(sodium_base64_ENCODED_LEN(kKeyBytes, kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), kVariant);
  text.resize(kTextBytes);
  return text;
}

std::optional<KeyBytes> DecodeKey(std::string_view text) {
  KeyBytes bytes;
  size_t size = 0;
  if (text.size() != kTextBytes ||
      sodium_base642bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &size,
                        nullptr, kVariant) != 0 ||
      size != bytes.size()) {
    return std::nullopt;
  }
  // libsodium takes some bytes above 127 for letters.
  if (Encode(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace

SecretKey::~SecretKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

std::string_view NameOf(KeyRole role) {
  const auto found = std::ranges::find(kNames, role, &Named::role);
  return found->name;
}

std::optional<KeyRole> KeyRoleFrom(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &Named::name);
  if (found == kNames.end() || found->role == KeyRole::kScheduler) return std::nullopt;
  return found->role;
}

KeyPair DrawKeyPair() {
  StartSodium();
  KeyBytes public_key, secret_key;
  do {
    crypto_box_keypair(public_key.data(), secret_key.data());
  } while (Encode(public_key).starts_with('-'));  // which would look like an option
  const KeyPair keys = {{public_key}, SecretKey(secret_key)};
  sodium_memzero(secret_key.data(), secret_key.size());
  return keys;
}

KeyPair KeyPairOf(const SecretKey& secret) {
  StartSodium();
  KeyPair keys = {{}, secret};
  DSLIDE_CHECK(crypto_scalarmult_base(keys.public_key.bytes.data(), secret.bytes().data()) == 0);
  return keys;
}

std::string TextOf(const PublicKey& key) { return Encode(key.bytes); }
std::string TextOf(const SecretKey& key) { return Encode(key.bytes()); }

std::optional<PublicKey> PublicKeyFrom(std::string_view text) {
  const std::optional<KeyBytes> bytes = DecodeKey(text);
  if (!bytes) return std::nullopt;
  return PublicKey{*bytes};
}

std::optional<SecretKey> SecretKeyFrom(std::string_view text) {
  const std::optional<KeyBytes> bytes = DecodeKey(text);
  if (!bytes) return std::nullopt;
  return SecretKey(*bytes);
}

std::string ShortTextOf(const PublicKey& key) { return TextOf(key).substr(0, kShortBytes); }

uint32_t FingerprintOf(const PublicKey& key) {
  uint32_t number = 0;
  for (size_t i = 0; i < sizeof(number); ++i) number = (number << 8) | key.bytes[i];
  return number;
}

Incarnation DrawIncarnation(const std::optional<KeyPair>& keys) {
  const Incarnation drawn = DrawIncarnation();
  if (!keys) return drawn;
  const auto life = static_cast<uint32_t>(drawn.value);
  return {(uint64_t{FingerprintOf(keys->public_key)} << 32) | std::max(life, 1u)};
}

}  // namespace dslide
