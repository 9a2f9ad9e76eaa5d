#include "common/security/signature.h"

#include <sodium.h>

#include "common/base/check.h"

namespace dslide {

static_assert(crypto_sign_BYTES == std::tuple_size_v<Signature>);
static_assert(crypto_sign_PUBLICKEYBYTES == sizeof(VerifyKey::bytes));
static_assert(crypto_sign_SEEDBYTES == std::tuple_size_v<SigningKey::Seed>);

SigningKey SigningKey::Draw() {
  DSLIDE_CHECK(sodium_init() >= 0);
  Seed seed;
  randombytes_buf(seed.data(), seed.size());
  SigningKey key = FromSeed(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

SigningKey SigningKey::FromSeed(const Seed& seed) {
  DSLIDE_CHECK(sodium_init() >= 0);
  SigningKey key{Unset()};
  static_assert(crypto_sign_SECRETKEYBYTES == sizeof(key.secret_));
  crypto_sign_seed_keypair(key.verify_key_.bytes.data(), key.secret_.data(), seed.data());
  return key;
}

SigningKey::~SigningKey() { sodium_memzero(secret_.data(), secret_.size()); }

Signature SigningKey::Sign(const void* data, size_t size) const {
  Signature signature;
  crypto_sign_detached(signature.data(), nullptr, static_cast<const unsigned char*>(data), size,
                       secret_.data());
  return signature;
}

bool IsSignedBy(const VerifyKey& key, const void* data, size_t size,
                std::span<const uint8_t> signature) {
  return signature.size() == crypto_sign_BYTES &&
         crypto_sign_verify_detached(signature.data(), static_cast<const unsigned char*>(data),
                                     size, key.bytes.data()) == 0;
}

}  // namespace dslide
