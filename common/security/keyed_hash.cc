#include "common/security/keyed_hash.h"

#include <sodium.h>

#include <bit>

#include "common/base/check.h"

namespace dslide {

static_assert(crypto_shorthash_BYTES == sizeof(uint64_t));
static_assert(crypto_shorthash_KEYBYTES == std::tuple_size_v<HashKey>);
static_assert(std::endian::native == std::endian::little);

HashKey DrawHashKey() {
  DSLIDE_CHECK(sodium_init() >= 0);
  HashKey key;
  crypto_shorthash_keygen(key.data());
  return key;
}

uint64_t KeyedHash(const HashKey& key, const void* data, size_t size) {
  uint64_t hash = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&hash), static_cast<const unsigned char*>(data),
                   size, key.data());
  return hash;
}

}  // namespace dslide
