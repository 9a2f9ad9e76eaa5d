#include "tools/dslide/data/record_writer.h"

#include <doctest/doctest.h>

#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::record_writer_test {
namespace {

struct Written {
  std::string text;
  std::string not_held;
};

Written Write(RecordFormat format, const std::vector<Record>& records) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  RecordWriter writer = Ok(RecordWriter::Create(path, format));
  for (const Record& record : records) writer.Add(record);
  REQUIRE(writer.Finish().ok());
  return {*ReadWholeFile(path), writer.not_held().Text(format)};
}

TEST_CASE("record writer: JSON lines hold everything") {
  const std::vector<Record> records = {
      {{"one \"text\""}, {"a", "b c"}},
      {{"title", "text"}, {}, "\"x:7\""},
      {{"title", "first\nsecond"}, {"a"}, "7"},
      {{"line\nline"}, {"a"}},
      {{"a", "b", "c"}, {"ä"}},
      {{}, {"a"}},
      {{"", "b"}, {"a"}},
      {{"a"}, {"b"}, "", 0.1f},
      {{"a"}, {"b"}, "", 1e-30f},
      {{"a"}, {"b"}, "", 0.0f},
      {{"a"}, {"b"}, "", 1000.0f},
  };
  const Written written = Write(RecordFormat::kJsonLines, records);
  CHECK(written.not_held.empty());
  size_t begin = 0;
  for (const Record& record : records) {
    const size_t end = written.text.find('\n', begin);
    const std::string line = written.text.substr(begin, end - begin);
    CAPTURE(line);
    const Record read = Ok(ParseRecord(RecordFormat::kJsonLines, line));
    CHECK(read.fields == record.fields);
    CHECK(read.labels == record.labels);
    CHECK(read.id == record.id);
    CHECK(read.weight == record.weight);
    begin = end + 1;
  }
  CHECK(begin == written.text.size());
}

TEST_CASE("record writer: TSV") {
  const Written written =
      Write(RecordFormat::kTsv, {{{"a\ttab"}, {"x", "y z"}}, {{"title", "text"}, {}, "7", 2.0f}});
  CHECK(written.text == "a tab\tx\ty z\ntitle text\t\n");
  CHECK(written.not_held ==
        "TSV cannot hold all: 1 title joined with the text, 1 text with tabs or line ends, now "
        "spaces, 1 id left out, 1 weight left out");
}

TEST_CASE("record writer: fastText") {
  const Written written =
      Write(RecordFormat::kFastText,
            {{{"words __label__no x__label__y"}, {"x", "y z"}}, {{"__label____label__"}, {"q"}}});
  CHECK(written.text ==
        "__label__x __label__y_z words _ _label__no x__label__y\n__label__q _ _label____label__\n");
  CHECK(written.not_held ==
        "fastText cannot hold all: 2 texts with words that begin as labels do, now divided, 1 "
        "sample with spaces in labels, now '_'");
}

TEST_CASE("record writer: a first sample without a label is one as others") {
  const Written written =
      Write(RecordFormat::kFastText, {{{"no label"}, {}}, {{"a label"}, {"q"}}});
  CHECK(written.text == "no label\n__label__q a label\n");
}

}  // namespace
}  // namespace dslide::record_writer_test
