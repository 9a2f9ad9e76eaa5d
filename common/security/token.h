// Secrets that HTTP clients bring, and digests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace dslide {

// 256 random bits in base64url, 43 characters.
std::string DrawToken();
// Takes the same time wherever they differ.
bool IsSameToken(std::string_view given, std::string_view token);

// The token of an HTTP Authorization header ("Bearer TOKEN", RFC 6750); "" if it has none.
std::string_view BearerToken(std::string_view authorization);

// The token in a file: its first line, trimmed. Errors (kBadInput) name the file.
Result<std::string> ReadToken(const std::string& path);
// Makes the file's directory, which only its owner may read, if there is none.
Status WriteToken(const std::string& path, const std::string& token);

// What files and people are told of an incarnation, which who knows it could speak for.
uint64_t LifeOf(Incarnation incarnation);

// SHA-256 in base64, as Content-Security-Policy names scripts.
std::string Sha256Base64(std::string_view text);

}  // namespace dslide
