#include "common/security/keyed_hash.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

namespace dslide::keyed_hash_test {
namespace {

TEST_CASE("keyed hash: the vectors of SipHash's authors") {
  HashKey key;
  std::iota(key.begin(), key.end(), uint8_t{0});
  std::vector<uint8_t> bytes(15);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  CHECK(KeyedHash(key, nullptr, 0) == 0x726fdb47dd0e0e31);
  CHECK(KeyedHash(key, bytes.data(), bytes.size()) == 0xa129ca6149be45e5);
}

TEST_CASE("keyed hash: no two keys that are drawn are the same") {
  CHECK(DrawHashKey() != DrawHashKey());
}

}  // namespace
}  // namespace dslide::keyed_hash_test
