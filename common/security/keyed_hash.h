// SipHash-2-4 under a secret key (Aumasson and Bernstein, INDOCRYPT 2012; libsodium's
// crypto_shorthash): who does not have the key can neither forge a hash nor aim at one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dslide {

using HashKey = std::array<uint8_t, 16>;

// From the system's random numbers.
HashKey DrawHashKey();

// Of `size` bytes at `data`, which may be null if there are none.
uint64_t KeyedHash(const HashKey& key, const void* data, size_t size);

}  // namespace dslide
