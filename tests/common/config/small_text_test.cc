#include "common/config/small_text.h"

#include <string>

#include <doctest/doctest.h>

namespace dslide {
namespace {

std::string LineOf(std::string_view text) {
  const Result<std::string> line = FirstLine(text, "the file");
  REQUIRE_MESSAGE(line.ok(), line.error().message);
  return *line;
}

std::string WhyNot(std::string_view text) {
  const Result<std::string> line = FirstLine(text, "the file");
  REQUIRE_FALSE(line.ok());
  CHECK(line.error().kind == ErrorKind::kBadInput);
  return line.error().message;
}

}  // namespace

TEST_CASE("small text: blanks, line ends and a byte order mark around a line are ignored") {
  for (const std::string text :
       {"secret", "secret\n", "secret\r\n", "  secret\t\r\n", "\xef\xbb\xbfsecret\r\n",
        "\xef\xbb\xbf\r\n \r\nsecret \r\nmore\r\n", "\n\nsecret"}) {
    CAPTURE(text);
    CHECK(LineOf(text) == "secret");
  }
  CHECK(LineOf("two words\n") == "two words");
  for (const std::string text : {"", "\n", " \r\n\t", "\xef\xbb\xbf", "\xef\xbb\xbf\r\n"}) {
    CHECK(LineOf(text).empty());
  }
}

TEST_CASE("small text: a control byte and UTF-16 are refused with their line, without the text") {
  using namespace std::string_literals;
  CHECK(WhyNot("\nse\x07"
               "cret") == "the file: line 2 has the control byte 0x07; write it as plain text");
  CHECK(WhyNot("secret\0"s) ==
        "the file: line 1 has the control byte 0x00; write it as plain text");
  CHECK(WhyNot("sec\tret") == "the file: line 1 has the control byte 0x09; write it as plain text");
  CHECK(WhyNot("sec\rret\n") ==
        "the file: line 1 has the control byte 0x0d; write it as plain text");
  CHECK(WhyNot("\xff\xfes\0e\0"s) == "the file: is UTF-16; save it as UTF-8");
  CHECK(WhyNot("\xfe\xff\0s"s) == "the file: is UTF-16; save it as UTF-8");
}

TEST_CASE("small text: lines end in LF or CR LF") {
  std::string_view rest = "a\r\n\nb c \nd";
  CHECK(NextLine(&rest) == "a");
  CHECK(NextLine(&rest) == "");
  CHECK(NextLine(&rest) == "b c ");
  CHECK(NextLine(&rest) == "d");
  CHECK(rest.empty());
}

}  // namespace dslide
