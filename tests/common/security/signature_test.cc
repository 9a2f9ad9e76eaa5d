#include "common/security/signature.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/hex.h"

namespace dslide::signature_test {
namespace {

template <typename Array>
Array FromHex(const char* text) {
  Array bytes;
  std::ranges::copy(testing::FromHex(text), bytes.begin());
  return bytes;
}

TEST_CASE("signature: test 2 of RFC 8032, section 7.1") {
  const SigningKey key = SigningKey::FromSeed(FromHex<SigningKey::Seed>(
      "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"));
  CHECK(key.verify_key() ==
        VerifyKey{FromHex<std::array<uint8_t, 32>>(
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")});
  const uint8_t message = 0x72;
  const Signature signature = key.Sign(&message, 1);
  CHECK(signature ==
        FromHex<Signature>("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                           "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"));
  CHECK(IsSignedBy(key.verify_key(), &message, 1, signature));
  const uint8_t other = 0x73;
  CHECK_FALSE(IsSignedBy(key.verify_key(), &other, 1, signature));
  CHECK_FALSE(IsSignedBy(key.verify_key(), &message, 1, std::span(signature).first(63)));
  CHECK_FALSE(IsSignedBy(SigningKey().verify_key(), &message, 1, signature));
}

TEST_CASE("signature: no two keys that are drawn are the same") {
  CHECK(SigningKey::Draw().verify_key() != SigningKey::Draw().verify_key());
}

}  // namespace
}  // namespace dslide::signature_test
