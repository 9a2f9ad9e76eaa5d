#include "common/text/records/record_format.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/text/records/record_file.h"
#include "tests/support/data_file.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

std::string Repeated(const std::string& line, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line + "\n";
  return text;
}

TextFormat Seen(const std::string& text) { return FormatOf(HeadLines(text), {}); }

using Use = RecordFile::Use;

class DataFileOf : public DataFile {
 public:
  using DataFile::DataFile;

  std::string WhyNot(const DataFormat& format, Use use = Use::kLabels) const {
    const Result<RecordFile> file = RecordFile::Open(path(), format, use);
    if (file.ok()) return "";
    return file.error().message.substr(path().size() - std::string("data").size());
  }
  RecordFormat OpenedAs(const DataFormat& format, Use use = Use::kLabels) const {
    return Ok(RecordFile::Open(path(), format, use)).format();
  }
};

DataFormat Trained(TextFormat format) { return {format, "", true}; }

TEST_CASE("format: many lines tell it, not the first one") {
  CHECK(Seen("no label yet\n" + Repeated("red boat __label__red", 600)) == TextFormat::kFastText);
  CHECK(Seen("no label yet\n" + Repeated("red boat\tred", 600)) == TextFormat::kTsv);
  CHECK(Seen("oops\n" + Repeated(R"({"text": "red"})", 600)) == TextFormat::kJson);
  CHECK(Seen("\n \n" + Repeated("red boat", 10)) == TextFormat::kPlain);
  // A tab or a mark in less than one line of a hundred is text.
  CHECK(Seen("one\ttab\n" + Repeated("words", 100)) == TextFormat::kPlain);
  CHECK(Seen("one\ttab\n" + Repeated("words", 99)) == TextFormat::kTsv);
  CHECK(Seen("a __label__mark\n" + Repeated("words", 100)) == TextFormat::kPlain);
  CHECK(Seen(Repeated("a\tTSV", 50) + Repeated("of __label__ marks\tTSV", 40)) == TextFormat::kTsv);
}

TEST_CASE("format: numbers are so in most lines") {
  CHECK(Seen("3 10 5\n1 2:1\n 3:1\n2 4:0.5\n") == TextFormat::kNumbers);
  CHECK(Seen("# of a tool\n1 2:1\n0\n") == TextFormat::kLibsvm);
  CHECK(Seen("3 10 5\nare words\nand more\nwords\n") == TextFormat::kPlain);
  CHECK(Seen("7 1:0\nis a ratio\nof a game\nwithout a goal\n") == TextFormat::kPlain);
}

TEST_CASE("format: a header of known columns is CSV") {
  CHECK(Seen("text,labels\nred boat,red\n") == TextFormat::kCsv);
  CHECK(Seen("id;Title;TEXT\n1;a;b\n") == TextFormat::kCsv);
  CHECK(Seen("text,labels\r\nred boat,red\r\n") == TextFormat::kCsv);
  CHECK(Seen("\"text\",\"subject_uris\"\na,<http://a>\n") == TextFormat::kCsv);
  CHECK(Seen("body,tags\na,b\n") == TextFormat::kPlain);
  CHECK(FormatOf(HeadLines("body,tags\na,b\n"), *FieldNames::Parse("text:body,labels:tags")) ==
        TextFormat::kCsv);
  CHECK(Seen("text, in short, is this\nand more\n") == TextFormat::kPlain);
}

TEST_CASE("format: a line that the head cuts does not count") {
  const std::string line = "words " + std::string(100, 'x') + "\tlabel";
  std::string text = Repeated(line, 20'000);
  CHECK(text.size() > HeadLines::kBytes);
  const HeadLines head(std::string_view(text).substr(0, HeadLines::kBytes));
  CHECK(head.lines.back() == line);
  CHECK(head.numbers.back() == head.lines.size());
  // The file has one line, which is longer than the head.
  text = R"({"text": ")" + std::string(2 * HeadLines::kBytes, 'x');
  CHECK(Seen(text.substr(0, HeadLines::kBytes)) == TextFormat::kJson);
}

TEST_CASE("format: a file that contradicts the named or stored one is refused") {
  const DataFileOf tsv(Repeated("red boat", 3) + Repeated("red boat\tred", 600));
  CHECK(tsv.WhyNot(Trained(TextFormat::kJson)) ==
        "data:1: 'red boat' is not JSON lines, on which the model was trained; name the file's "
        "format by --format (603 of the first 603 lines are not)");
  CHECK(tsv.WhyNot({TextFormat::kFastText, "", false})
            .starts_with("data:4: 'red boat\\x09red' is not fastText, which text.format or "));
  CHECK(tsv.OpenedAs(Trained(TextFormat::kTsv)) == RecordFormat::kTsv);
  CHECK(tsv.OpenedAs({TextFormat::kPlain, "", false}) == RecordFormat::kPlainText);

  const DataFileOf fast_text(Repeated("red boat __label__red", 100));
  CHECK(fast_text.WhyNot(Trained(TextFormat::kTsv)).starts_with("data:1: 'red boat __label__red'"));
  CHECK(fast_text.OpenedAs(Trained(TextFormat::kRecords)) == RecordFormat::kFastText);

  const DataFileOf json(Repeated(R"({"text": "a"})", 100));
  for (const TextFormat format : {TextFormat::kTsv, TextFormat::kFastText}) {
    CHECK(json.WhyNot(Trained(format)).starts_with("data:1: '{\"text\": \"a\"}' is not "));
  }
  CHECK(json.WhyNot(Trained(TextFormat::kCsv)) ==
        "data:1: the header '{\"text\": \"a\"}' names no column 'text' or 'title' (text.fields = "
        "text:NAME gives another name)");

  const DataFileOf numbers("1 2:1\n3 4:1\n");
  CHECK(numbers.WhyNot(Trained(TextFormat::kJson)).find("has numbers") != std::string::npos);
}

TEST_CASE("format: a few lines of another format do not contradict it") {
  const DataFileOf few(Repeated(R"({"text": "a"})", 99) + "oops\n");
  CHECK(few.OpenedAs(Trained(TextFormat::kJson)) == RecordFormat::kJsonLines);
  CHECK(DataFileOf("{\"text\": \"a\"}\noops\n{\"text\": \"b\"}\n")
            .OpenedAs(Trained(TextFormat::kJson)) == RecordFormat::kJsonLines);
  const DataFileOf more(Repeated(R"({"text": "a"})", 196) + Repeated("oops", 2));
  CHECK(more.WhyNot(Trained(TextFormat::kJson), Use::kPredict)
            .starts_with("data:197: 'oops' is not JSON"));
  // Training and evaluation count these among the records that cannot be read.
  CHECK(more.OpenedAs(Trained(TextFormat::kJson), Use::kLabels) == RecordFormat::kJsonLines);
}

TEST_CASE("format: plain lines are texts to predict for any model, and no labels") {
  const DataFileOf plain("red boat\n\ngreen tree\n");
  CHECK(plain.OpenedAs(Trained(TextFormat::kJson), Use::kPredict) == RecordFormat::kPlainText);
  CHECK(plain.WhyNot(Trained(TextFormat::kJson), Use::kLabels)
            .starts_with("data:1: 'red boat' is not"));
  CHECK(plain.WhyNot({TextFormat::kJson, "", false}, Use::kPredict)
            .starts_with("data:1: 'red boat'"));
  CHECK(plain.OpenedAs(Trained(TextFormat::kTsv), Use::kPredict) == RecordFormat::kTsv);
}

}  // namespace
}  // namespace dslide
