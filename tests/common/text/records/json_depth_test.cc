#include "common/text/records/json_depth.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/results.h"

namespace dslide {
namespace {

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("JSON that is nested too deep is found") {
  CHECK_FALSE(IsNestedTooDeep(""));
  CHECK_FALSE(IsNestedTooDeep(Nested(kMostJsonDepth)));
  CHECK(IsNestedTooDeep(Nested(kMostJsonDepth + 1)));
  CHECK(IsNestedTooDeep(std::string(1'000'000, '[')));
  std::string objects;
  for (size_t i = 0; i <= kMostJsonDepth; ++i) objects += R"({"a":)";
  CHECK(IsNestedTooDeep(objects));
}

TEST_CASE("JSON text with a NUL byte, which the library takes for its end, is refused") {
  using namespace std::string_literals;
  CHECK(CheckJsonText(R"({"a": "\u0000"})").ok());
  for (const std::string& text : {"{}\0"s, "{}\0{}"s, "\0{}"s, "{\"a\0\": 1}"s}) {
    CAPTURE(text);
    CHECK(MessageOf(CheckJsonText(text)) ==
          "has a NUL byte (byte " + std::to_string(text.find('\0') + 1) + " of " +
              std::to_string(text.size()) + "), which JSON does not allow");
  }
  CHECK(CheckJsonText(Nested(kMostJsonDepth + 1)).error().message ==
        "is nested deeper than 100 levels");
}

TEST_CASE("brackets beside each other and in strings do not nest JSON") {
  std::string beside = "[";
  for (size_t i = 0; i < 2 * kMostJsonDepth; ++i) beside += "[{}],";
  CHECK_FALSE(IsNestedTooDeep(beside + "0]"));
  CHECK_FALSE(IsNestedTooDeep("[\"" + Nested(1000).substr(0, 1000) + "\"]"));
  // A quotation mark behind a backslash does not end the string, two backslashes do not go on.
  CHECK_FALSE(IsNestedTooDeep(R"(["\")" + std::string(1000, '[') + "\"]"));
  CHECK(IsNestedTooDeep(R"(["\\",)" + std::string(1000, '[')));
}

}  // namespace
}  // namespace dslide
