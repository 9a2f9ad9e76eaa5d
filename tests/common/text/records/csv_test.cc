#include "common/text/records/csv.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/text/records/record_file.h"
#include "tests/support/data_file.h"
#include "tests/support/results.h"

namespace dslide {
namespace {

using Names = std::vector<std::string>;

// All records of a file, or the error that ended them.
struct ReadFile {
  std::vector<Record> records;
  std::vector<uint64_t> lines;
  std::vector<std::string> errors;
};

ReadFile Read(const std::string& text, const std::string& fields = "") {
  const DataFile data(text);
  ReadFile read;
  Result<RecordFile> file =
      RecordFile::Open(data.path(), {TextFormat::kCsv, fields}, RecordFile::Use::kLabels);
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.error().message));
  while (true) {
    const auto line = Ok(file->stream()->Next());
    if (!line.has_value()) return read;
    Result<Record> record = ParseRecord(file->rules(), *line);
    if (record.ok()) {
      read.records.push_back(*std::move(record));
      read.lines.push_back(file->line());
    } else {
      read.errors.push_back(std::to_string(file->line()) + ": " + record.error().message);
    }
  }
}

TEST_CASE("CSV: columns are read by their names") {
  const ReadFile read = Read(
      "id,year,Text,labels,title,weight\n"
      "7,1999,\"a, b\",red,On boats,2\n"
      "x,,c,,,\n");
  REQUIRE(read.records.size() == 2);
  CHECK(read.records[0].fields == Names{"On boats", "a, b"});
  CHECK(read.records[0].labels == Names{"red"});
  CHECK(read.records[0].id == "\"7\"");
  CHECK(read.records[0].weight == 2.0f);
  CHECK(read.records[1].fields == Names{"c"});
  CHECK(read.records[1].labels.empty());
  CHECK(read.lines == std::vector<uint64_t>{2, 3});
}

TEST_CASE("CSV: quotes, doubled quotes and line ends in cells") {
  const ReadFile read = Read(
      "text,labels\r\n"
      "\"He said \"\"boat\"\"\nand left\",a\r\n"
      "a 5\" pipe,b\r\n"
      "\"\",c\r\n"
      "\"two\r\nlines\",\"d\"\r\n");
  REQUIRE(read.records.size() == 4);
  CHECK(read.records[0].fields == Names{"He said \"boat\"", "and left"});
  CHECK(read.records[1].fields == Names{"a 5\" pipe"});
  CHECK(read.records[2].fields == Names{""});
  CHECK(read.records[2].labels == Names{"c"});
  CHECK(read.records[3].fields == Names{"two", "lines"});
  CHECK(read.lines == std::vector<uint64_t>{2, 4, 5, 6});
}

TEST_CASE("CSV: a quote that is not closed takes no other record with it") {
  const ReadFile read = Read("text,labels\n\"never closed,a\nb,c\nd,e\n");
  REQUIRE(read.records.size() == 2);
  CHECK(read.errors == Names{"2: a quote that opens is not closed"});
  CHECK(read.lines == std::vector<uint64_t>{3, 4});
  // Nor one that is closed thousands of lines later.
  std::string text = "text,labels\n\"open,a\n";
  for (int i = 0; i < 3000; ++i) text += "b,c\n";
  const ReadFile longer = Read(text + "\"closed\",d\n");
  CHECK(longer.records.size() == 3001);
  CHECK(longer.errors.size() == 1);
}

TEST_CASE("CSV: a quote that is not closed before long records takes none of them with it") {
  std::string text = "text,labels\n\"open,a\n";
  const std::string record = std::string(size_t{1} << 20, 'x') + ",b\n";
  const size_t records = (kMaxLineBytes >> 20) + 1;
  for (size_t i = 0; i < records; ++i) text += record;
  const ReadFile read = Read(text);
  CHECK(read.records.size() == records);
  CHECK(read.errors == Names{"2: a quote that opens is not closed"});
}

TEST_CASE("CSV: labels are a cell, a JSON list, several columns, or URIs") {
  CHECK(Read("text,labels\na,\"[\"\"x\"\", \"\"y z\"\"]\"\n").records[0].labels ==
        Names{"x", "y z"});
  CHECK(Read("labels,text,labels\nb,a,c\nb,a,b\n").records[0].labels == Names{"b", "c"});
  CHECK(Read("labels,text,labels\nb,a,b\n").records[0].labels == Names{"b"});
  CHECK(Read("text,label\na,b;c\n").records[0].labels == Names{"b;c"});
  CHECK(Read("document_id,text,subject_uris\n3,a,<http://x/1> <http://x/2>\n").records[0].labels ==
        Names{"http://x/1", "http://x/2"});
  CHECK(Read("text,subject_uris\na,http://x/1 http://x/2\n").records[0].labels ==
        Names{"http://x/1", "http://x/2"});
  CHECK(Read("text,labels\na,['x']\n").errors == Names{"2: '['x']' is not a JSON list"});
  CHECK(Read("text,labels\na,[DE] Physik\n").records[0].labels == Names{"[DE] Physik"});
}

TEST_CASE("CSV: semicolons, other names and a separator of labels") {
  CHECK(Read("text;labels\na,b;c\n").records[0].fields == Names{"a,b"});
  const ReadFile read =
      Read("headline,body,tags\nT,x,a|b | c\n", "title:headline,text:body,labels:tags,separator:|");
  CHECK(read.records[0].fields == Names{"T", "x"});
  CHECK(read.records[0].labels == Names{"a", "b", "c"});
}

TEST_CASE("CSV: a record of other columns than the header is an error") {
  const ReadFile read = Read("text,labels\na\nb,c,d\n\ne,f\n");
  CHECK(read.errors == Names{"2: 'a' has 1 column, but the header 2",
                             "3: 'b,c,d' has 3 columns, but the header 2"});
  CHECK(read.records.size() == 2);  // a blank line is one without text
  CHECK(Read("text,weight\na,much\n").errors ==
        Names{"2: \"weight\" is '\"much\"' (expected a number from 0 to 1000)"});
}

TEST_CASE("fields: names that are wrong are described") {
  const auto why_not = [](std::string_view fields) { return MessageOf(FieldNames::Parse(fields)); };
  CHECK(why_not("body").starts_with(
      "text.fields = 'body': 'body' is not a valid pair (expected FIELD:NAME "));
  CHECK(why_not("label:tags")
            .starts_with("text.fields = 'label:tags': 'label:tags' is not a valid pair"));
  CHECK(why_not("text:").starts_with("text.fields = 'text:': 'text:' has no name"));
  CHECK(why_not("text:a,title:a").find("title and text have one name") != std::string::npos);
  CHECK(why_not("title:text").find("title and text have one name") != std::string::npos);
  CHECK(FieldNames::Parse("separator:comma")->separator == ",");
  CHECK(FieldNames::Parse("")->text == "text");
}

TEST_CASE("fields: JSON lines are read by them too") {
  RecordRules rules(RecordFormat::kJsonLines);
  rules.fields = *FieldNames::Parse("title:headline,text:body,labels:tags,separator:comma");
  const Record record = Ok(ParseRecord(
      rules, R"({"headline": "T", "body": "x", "text": 5, "tags": "a, b", "labels": ["c"]})"));
  CHECK(record.fields == Names{"T", "x"});
  CHECK(record.labels == Names{"a", "b"});
  CHECK(ParseRecord(rules, R"({"text": "x"})").error().message ==
        "the object has no \"body\" (expected {\"body\": ..., \"tags\": [...]})");
  rules.format = RecordFormat::kFastText;
  CHECK(ParseRecord(rules, "__label__a,b x")->labels == Names{"a", "b"});
}

}  // namespace
}  // namespace dslide
