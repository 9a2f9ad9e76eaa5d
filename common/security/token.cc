#include "common/security/token.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cctype>
#include <filesystem>

#include "common/base/check.h"
#include "common/config/small_text.h"
#include "common/data/whole_file.h"
#include "common/security/small_file.h"

namespace dslide {
namespace {

constexpr size_t kTokenBytes = 32;

void StartLibrary() {
  static const bool started = sodium_init() >= 0;
  DSLIDE_CHECK(started);
}

template <size_t kBytes>
std::string Base64(const std::array<unsigned char, kBytes>& bytes, int variant) {
  std::string text(sodium_base64_encoded_len(kBytes, variant), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), variant);
  text.pop_back();  // the final zero
  return text;
}

std::array<unsigned char, crypto_hash_sha256_BYTES> Sha256(std::string_view text) {
  StartLibrary();
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size());
  return digest;
}

}  // namespace

std::string DrawToken() {
  StartLibrary();
  std::array<unsigned char, kTokenBytes> bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return Base64(bytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

bool IsSameToken(std::string_view given, std::string_view token) {
  return given.size() == token.size() &&
         sodium_memcmp(given.data(), token.data(), token.size()) == 0;
}

std::string_view BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return "";
  }
  return Stripped(authorization.substr(kScheme.size()));
}

Result<std::string> ReadToken(const std::string& path) {
  Result<std::string> token = ReadFirstLine(path);
  if (!token.ok() || token->size() >= 16) return token;
  return BadInput(
      fmt::format("{}: its first line is no token, of at least 16 characters: head -c 16 "
                  "/dev/urandom | base64 makes one",
                  path));
}

Status WriteToken(const std::string& path, const std::string& token) {
  namespace fs = std::filesystem;
  const fs::path directory = fs::path(path).parent_path();
  std::error_code error;
  if (fs::create_directories(directory, error)) {
    fs::permissions(directory, fs::perms::owner_all, error);
  }
  if (error)
    return Failed(fmt::format("{}: cannot create: {}", directory.string(), error.message()));
  return WriteSecretFile(path, token + "\n");
}

uint64_t LifeOf(Incarnation incarnation) {
  const auto digest = Sha256(fmt::format("{:016x}", incarnation.value));
  uint64_t life = 0;
  for (size_t i = 0; i < sizeof(life); ++i) life = life << 8 | digest[i];
  return life;
}

std::string Sha256Base64(std::string_view text) {
  return Base64(Sha256(text), sodium_base64_VARIANT_ORIGINAL);
}

}  // namespace dslide
