// Ed25519 signatures (RFC 8032; libsodium's crypto_sign_detached). A process that has the verify
// key can check a signature but not make one. Signing is deterministic: a key and a message have
// one signature.
//
// A signature costs about 25 us to make and 70 us to check.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dslide {

using Signature = std::array<uint8_t, 64>;

struct VerifyKey {
  std::array<uint8_t, 32> bytes = {};
  bool operator==(const VerifyKey&) const = default;
};

// Erased from memory when it goes. Any thread may sign.
class SigningKey {
 public:
  using Seed = std::array<uint8_t, 32>;

  // From the system's random numbers.
  static SigningKey Draw();
  // The key of a seed: as secret as the key itself.
  static SigningKey FromSeed(const Seed& seed);

  SigningKey() : SigningKey(FromSeed({})) {}
  SigningKey(const SigningKey&) = default;
  SigningKey& operator=(const SigningKey&) = default;
  ~SigningKey();

  const VerifyKey& verify_key() const { return verify_key_; }
  Signature Sign(const void* data, size_t size) const;

 private:
  struct Unset {};
  explicit SigningKey(Unset) {}

  std::array<uint8_t, 64> secret_ = {};
  VerifyKey verify_key_;
};

// Whether `signature` is that of the key's owner for `size` bytes at `data`. Any number of bytes
// may be given as a signature.
bool IsSignedBy(const VerifyKey& key, const void* data, size_t size,
                std::span<const uint8_t> signature);

}  // namespace dslide
