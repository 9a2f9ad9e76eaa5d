#include "common/config/quoted.h"

#include <string>

#include <doctest/doctest.h>

#include "common/base/random.h"

namespace dslide {

TEST_CASE("quoted: plain values are as they stand, up to a comment") {
  CHECK(ReadValue(" a b \t# why").text == "a b");
  CHECK(ReadValue("").text == "");
  CHECK(ReadValue("# nothing").text == "");
  CHECK(ReadValue("a\"b\\n").text == "a\"b\\n");
  CHECK(ReadValue("/a b#c").text == "/a b");
  CHECK(ReadValue("/a b#c", Comments::kNone).text == "/a b#c");
  CHECK_FALSE(ReadValue("a").quoted);
}

TEST_CASE("quoted: between quotes every byte can be written") {
  CHECK(ReadValue(R"( "a#b" )").text == "a#b");
  CHECK(ReadValue(R"("a # b" # why)").text == "a # b");
  CHECK(ReadValue(R"("\\ \" \t \n \r \x01 \xfF")").text == "\\ \" \t \n \r \x01 \xff");
  CHECK(ReadValue(R"("")").text == "");
  CHECK(ReadValue(R"(" x ")").text == " x ");
  CHECK(ReadValue(R"("a")").plain == R"("a")");
  CHECK(ReadValue(R"("a")").quoted);
}

TEST_CASE("quoted: what has not that form is plain") {
  for (const char* text : {R"("a" "b")", R"("a)", R"("a\q")", R"("a\x1")", R"("a\xzz")", R"("a"b)",
                           R"("\)", R"(a "b")", R"(")"}) {
    CAPTURE(text);
    CHECK(ReadValue(text).text == text);
    CHECK_FALSE(ReadValue(text).quoted);
  }
  CHECK(ReadValue(R"("a" # b)", Comments::kNone).text == R"("a" # b)");
}

TEST_CASE("quoted: a comment that begins within quotes is told") {
  CHECK(ReadValue(R"(cp "$1" "/b#1")").cuts_a_string);
  CHECK(ReadValue(R"("/b#1" "$1")").cuts_a_string);
  CHECK_FALSE(ReadValue(R"("/b#1")").cuts_a_string);
  CHECK_FALSE(ReadValue(R"(cp "$1" # to "b")").cuts_a_string);
  CHECK_FALSE(ReadValue(R"(5" of it # why)").cuts_a_string);
}

TEST_CASE("quoted: what is written is read again, whatever bytes it has") {
  for (const std::string plain :
       {"", "/a b/c.txt", "a\"b", "\xc3\xa9\xf0\x9f\x98\x80", "a\\b", "x=y", "[x]", ";"}) {
    CAPTURE(plain);
    CHECK(QuotedValue(plain) == plain);
  }
  CHECK(QuotedValue("/a#b") == R"("/a#b")");
  CHECK(QuotedValue("\"a\"") == R"("\"a\"")");
  CHECK(QuotedValue("a\n\x7f\\") == R"("a\n\x7f\\")");
  // No UTF-8: a lone byte, a surrogate, a character in more bytes than it needs, one cut off.
  CHECK(QuotedValue("\xff\xc3\xa9") == "\"\\xff\xc3\xa9\"");
  CHECK(QuotedValue("\xed\xa0\x80") == R"("\xed\xa0\x80")");
  CHECK(QuotedValue("\xc0\xaf") == R"("\xc0\xaf")");
  CHECK(QuotedValue("\xe2\x82") == R"("\xe2\x82")");
  CHECK(QuotedValue(" a") == R"(" a")");
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    static constexpr std::string_view kBytes = " \t\n\r\"\\#=[]x0fan\x01\x7f\x80\xff";
    std::string value;
    for (uint64_t n = random.Below(8); n > 0; --n) {
      value += random.Below(4) == 0 ? static_cast<char>(1 + random.Below(255))
                                    : kBytes[random.Below(kBytes.size())];
    }
    const std::string written = QuotedValue(value);
    REQUIRE(written.find('\n') == std::string::npos);
    REQUIRE(ReadValue(" " + written + "  # why\r").text == value);
  }
}

}  // namespace dslide
