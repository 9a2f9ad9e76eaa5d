#include "common/security/token.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::token_test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("token: 256 bits that need no quotes, another one each time") {
  std::set<std::string> drawn;
  for (int i = 0; i < 100; ++i) {
    const std::string token = DrawToken();
    CHECK(token.size() == 43);
    CHECK(token.find_first_not_of(
              "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
          std::string::npos);
    drawn.insert(token);
  }
  CHECK(drawn.size() == 100);
}

TEST_CASE("token: only the same one is the same") {
  const std::string token = DrawToken();
  CHECK(IsSameToken(token, token));
  CHECK_FALSE(IsSameToken("", token));
  CHECK_FALSE(IsSameToken(token + "x", token));
  CHECK_FALSE(IsSameToken(token.substr(1), token));
  std::string other = token;
  other.back() = other.back() == 'A' ? 'B' : 'A';
  CHECK_FALSE(IsSameToken(other, token));
}

TEST_CASE("token: its file is its owner's alone, and comes back") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/keys/status.token";
  CHECK_FALSE(ReadToken(path).ok());
  const std::string token = DrawToken();
  REQUIRE(WriteToken(path, token).ok());
  CHECK(*ReadToken(path) == token);
  CHECK((fs::status(path).permissions() & fs::perms::mask) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK((fs::status(directory.path() + "/keys").permissions() & fs::perms::mask) ==
        fs::perms::owner_all);
  std::ofstream(path) << "short\n";
  CHECK(MessageOf(ReadToken(path)).starts_with(path + ": its first line is no token"));
}

TEST_CASE("token: blanks, line ends and a byte order mark around it are ignored") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/token";
  const auto read = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return ReadToken(path);
  };
  const std::string token = "0123456789abcdefghij";
  for (const std::string& text : {token, token + "\n", token + "\r\n", " " + token + " \t\n",
                                  "\xef\xbb\xbf" + token + "\r\n", "\n" + token}) {
    CAPTURE(text);
    REQUIRE(read(text).ok());
    CHECK(*read(text) == token);
  }
  CHECK(read("\xef\xbb\xbf \r\n").error().message == path + ": is empty");
  CHECK(read(token + "\x01").error().message.starts_with(path + ": line 1 has the control byte"));
  CHECK(BearerToken("Bearer  " + token + " ") == token);
}

TEST_CASE("token: digests are SHA-256") {
  // FIPS 180-2, appendix B.1
  CHECK(Sha256Base64("abc") == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  CHECK(LifeOf({1}) == LifeOf({1}));
  CHECK(LifeOf({1}) != LifeOf({2}));
  CHECK(LifeOf({1}) != 1);
}

}  // namespace
}  // namespace dslide::token_test
