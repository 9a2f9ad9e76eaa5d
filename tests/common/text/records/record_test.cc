#include "common/text/records/record.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/results.h"

namespace dslide {
namespace {

using Names = std::vector<std::string>;

Record Parsed(RecordFormat format, std::string_view line) { return Ok(ParseRecord(format, line)); }

std::string WhyNot(std::string_view line) {
  return MessageOf(ParseRecord(RecordFormat::kJsonLines, line));
}

TEST_CASE("a format is recognised by a line") {
  const auto format_of = [](std::string_view line) { return FormatOf(HeadLines(line), {}); };
  CHECK(format_of("0,2 1:0.5 7:1") == TextFormat::kLibsvm);
  CHECK(format_of("0,2\t1:0.5\t7:1") == TextFormat::kLibsvm);
  CHECK(format_of("7 dwarfs\t1:0.5") == TextFormat::kTsv);
  CHECK(format_of("__label__a\tsome words") == TextFormat::kFastText);
  CHECK(format_of("3\t10\t5") == TextFormat::kNumbers);
}

TEST_CASE("JSON lines: an id may be anything, and is kept as JSON") {
  const auto id = [](const std::string& json) {
    return Parsed(RecordFormat::kJsonLines, R"({"text": "a", "id": )" + json + "}").id;
  };
  CHECK(id("17") == "17");
  CHECK(id(R"("a \"b\"")") == R"("a \"b\"")");
  CHECK(id("[1, \"x\"]") == "[1,\"x\"]");
  CHECK(id("null").empty());
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "a"})").id.empty());
}

TEST_CASE("JSON lines: a weight is a number from 0") {
  const auto line = [](const std::string& json) {
    return R"({"text": "a", "weight": )" + json + "}";
  };
  const auto weight = [&](const std::string& json) {
    return Parsed(RecordFormat::kJsonLines, line(json)).weight;
  };
  CHECK(weight("2") == 2.0f);
  CHECK(weight("0.25") == 0.25f);
  CHECK(weight("0") == 0.0f);
  CHECK(weight("1e3") == 1e3f);
  CHECK(weight("null") == 1.0f);
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "a"})").weight == 1.0f);
  CHECK(WhyNot(line("-1")) == "\"weight\" is '-1' (expected a number from 0 to 1000)");
  CHECK(WhyNot(line("-1e-9")).starts_with("\"weight\" is '-1e-09' (expected"));
  CHECK(WhyNot(line("1000001")).starts_with("\"weight\" is '1000001' (expected"));
  CHECK(WhyNot(line("1e300")).starts_with("\"weight\" is '1e+300' (expected"));
  CHECK(WhyNot(line("\"2\"")).starts_with("\"weight\" is '\"2\"' (expected"));
  CHECK(WhyNot(line("true")).starts_with("\"weight\" is 'true' (expected"));
  CHECK(WhyNot(line("[1]")).starts_with("\"weight\" is '[1]' (expected"));
  for (const char* none : {"NaN", "Infinity", "1e999"}) {
    CAPTURE(none);
    CHECK(WhyNot(line(none)).find("is not JSON") != std::string::npos);
  }
}

TEST_CASE("JSON lines") {
  const Record record = Parsed(
      RecordFormat::kJsonLines,
      R"({"id": "x:7", "text": "Title\nIt's \u00e4\nand more", "labels": ["b", "a", "b", 12], "year": 3})");
  CHECK(record.fields == Names{"Title", "It's ä\nand more"});
  CHECK(record.id == "\"x:7\"");
  CHECK(record.labels == Names{"b", "a", "12"});

  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "no title", "labels": "one"})").labels ==
        Names{"one"});
  const Record fields =
      Parsed(RecordFormat::kJsonLines, R"({"text": ["Title", "abstract\nx", ""], "id": 5})");
  CHECK(fields.fields == Names{"Title", "abstract\nx", ""});
  CHECK(fields.labels.empty());
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "", "labels": null})").labels.empty());
}

TEST_CASE("JSON lines: null is absent") {
  const auto fields = [](std::string_view line) {
    return Parsed(RecordFormat::kJsonLines, line).fields;
  };
  CHECK(fields(R"({"title": null, "text": "a"})") == Names{"a"});
  CHECK(fields(R"({"title": "T", "text": null})") == Names{"T"});
  CHECK(fields(R"({"text": ["T", null, "c"]})") == Names{"T", "", "c"});
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "a", "labels": [null, "b", null]})").labels ==
        Names{"b"});
  CHECK(WhyNot(R"({"title": null, "text": null})").starts_with("the object has no \"text\""));
  CHECK(WhyNot(R"({"text": null, "labels": ["b"]})").starts_with("the object has no \"text\""));
}

TEST_CASE("JSON lines: half a character is named") {
  const auto half = [](std::string_view text) {
    const std::string why = WhyNot("{\"text\": \"" + std::string(text) + "\"}");
    const size_t at = why.find("' has ");
    return at == std::string::npos ? why : why.substr(at + 6, 6);
  };
  CHECK(half(R"(cut \ud83d)") == R"(\ud83d)");
  CHECK(half(R"(cut \uD83D\n)") == R"(\uD83D)");
  CHECK(half(R"(\ude00 begins)") == R"(\ude00)");
  CHECK(half(R"(\ud83d\ude00 and \ud83d\ud83d\ude00)") == R"(\ud83d)");
  CHECK(half(R"(\\ud83d is not an escape, \ude00 is)") == R"(\ude00)");
  CHECK(WhyNot(R"({"text": "\\ud83d", })").ends_with("is not JSON"));
  CHECK(WhyNot(R"({"text": "\ud83d\ude00", })").ends_with("is not JSON"));
  CHECK(WhyNot(R"({"text": "\u12)").ends_with("is not JSON"));
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "\ud83d\ude00 \\ud83d"})").fields ==
        Names{"\xf0\x9f\x98\x80 \\ud83d"});
}

TEST_CASE("JSON lines that are wrong are described") {
  CHECK(WhyNot("{\"text\": ") == "'{\"text\": ' is not JSON");
  CHECK(WhyNot("[1]") == "'[1]' is not a JSON object");
  using namespace std::string_view_literals;
  CHECK(WhyNot("{\"text\": \"a\"}\0{\"text\": \"b\"}"sv) ==
        "'{\"text\": \"a\"}\\x00{\"text\": \"b\"}' has a NUL byte (byte 14 of 27), which JSON does "
        "not allow");
  CHECK(WhyNot(R"({"labels": []})") ==
        "the object has no \"text\" (expected {\"text\": ..., \"labels\": [...]})");
  CHECK(WhyNot(R"({"text": 5})") == "\"text\" is not a string or a list of strings");
  CHECK(WhyNot(R"({"text": ["a", 5]})") == "\"text\" is not a string or a list of strings");
  CHECK(WhyNot(R"({"title": 5})") == "\"title\" is not a string");
  CHECK(WhyNot(R"({"text": "a", "labels": [1.5]})") ==
        "a label is a fraction, not a name or a whole number");
  CHECK(WhyNot(R"({"text": "a", "labels": [["b"]]})") ==
        "a label is array, not a name or a whole number");
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  for (const std::string key : {"text", "title", "labels", "id", "other"}) {
    CHECK(WhyNot("{\"" + key + "\": " + deep + "}")
              .ends_with("...' is nested deeper than 100 levels"));
  }
}

TEST_CASE("a title beside the text") {
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"title": "T", "text": "rest"})").fields ==
        Names{"T", "rest"});
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"title": "T"})").fields == Names{"T"});
}

TEST_CASE("lines that are no UTF-8 are refused in each format") {
  for (const RecordFormat format : {RecordFormat::kJsonLines, RecordFormat::kFastText,
                                    RecordFormat::kTsv, RecordFormat::kPlainText}) {
    CHECK(MessageOf(ParseRecord(format, "Caf\xe9\tLatin")).find("is not UTF-8") !=
          std::string::npos);
  }
}

TEST_CASE("control characters in a label are spaces") {
  CHECK(Parsed(RecordFormat::kJsonLines, R"({"text": "a", "labels": ["be\nta\tx", "be ta x"]})")
            .labels == Names{"be ta x"});
}

TEST_CASE("many labels take time in proportion") {
  std::string line = "words";
  for (int i = 0; i < 200'000; ++i) line += "\t" + std::to_string(i % 150'000);
  CHECK(Parsed(RecordFormat::kTsv, line).labels.size() == 150'000);
}

TEST_CASE("fastText lines") {
  const Record record =
      Parsed(RecordFormat::kFastText, "__label__b  Some words __label__a here __label__b ");
  CHECK(record.fields == Names{"Some words here"});
  CHECK(record.labels == Names{"b", "a"});
  CHECK(Parsed(RecordFormat::kFastText, "words alone").labels.empty());
}

TEST_CASE("TSV lines") {
  const Record record =
      Parsed(RecordFormat::kTsv, "Some text\tfirst label\t second \t\tfirst label");
  CHECK(record.fields == Names{"Some text"});
  CHECK(record.labels == Names{"first label", "second"});
  CHECK(Parsed(RecordFormat::kTsv, "text <a>\t<http://a/1> <http://a/2>").labels ==
        Names{"http://a/1", "http://a/2"});
  CHECK(Parsed(RecordFormat::kTsv, "no label").labels.empty());
}

}  // namespace
}  // namespace dslide
