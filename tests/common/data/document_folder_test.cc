// Folders of documents as text streams.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/data/text_stream.h"
#include "common/text/records/record.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::document_folder_test {
namespace {

class Folder : public TempDirectory {
 public:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path() + "/" + name, std::ios::binary) << text;
  }
  std::vector<std::string> Lines() const {
    TextStream stream = Ok(TextStream::OpenRecords(path()));
    std::vector<std::string> lines;
    while (const auto line = Ok(stream.Next())) lines.emplace_back(*line);
    return lines;
  }
};

TEST_CASE("document folder: texts with their subjects beside them, by name") {
  const Folder folder;
  folder.Write("b.txt",
               "\xef\xbb\xbf"
               "Title\nSecond \"line\"\t\\ here\n");
  folder.Write("b.key", "dogs\r\n\ncats and mice\n");
  folder.Write("a.txt", "one");
  folder.Write("a.tsv", "\xef\xbb\xbf<http://e.org/1>\tcats\n<http://e.org/2>\tdogs\n");
  folder.Write("a.key", "not read");
  folder.Write("c.txt", "");
  folder.Write("README", "not read");
  folder.Write("d.json", "{\n \"text\": \"two\",\r\n \"subjects\": [{\"uri\": \"u\"}]\n}\n");
  const std::vector<std::string> lines = folder.Lines();
  REQUIRE(lines.size() == 4);
  const auto record = [&](size_t i) { return Ok(ParseRecord(RecordFormat::kJsonLines, lines[i])); };
  CHECK(record(0).id == "\"a\"");
  CHECK(record(0).fields == std::vector<std::string>{"one"});
  CHECK(record(0).labels == std::vector<std::string>{"http://e.org/1", "http://e.org/2"});
  CHECK(record(1).fields == std::vector<std::string>{"Title", "Second \"line\"\t\\ here\n"});
  CHECK(record(1).labels == std::vector<std::string>{"dogs", "cats and mice"});
  CHECK(record(2).labels.empty());
  CHECK(record(3).fields == std::vector<std::string>{"two"});
  CHECK(record(3).labels == std::vector<std::string>{"u"});
}

TEST_CASE("document folder: a folder without documents is none") {
  const Folder folder;
  folder.Write("a.tsv", "x");
  CHECK(MessageOf(TextStream::OpenRecords(folder.path())) ==
        folder.path() + ": is a directory (expected a file)");
  folder.Write("a.txt", "only for records");
  CHECK(MessageOf(TextStream::Open(folder.path())) ==
        folder.path() + ": is a directory (expected a file)");
}

TEST_CASE("document folder: a file that cannot be read is named") {
  const Folder folder;
  folder.Write("a.txt", "one");
  folder.Write("b.txt", "two");
  std::filesystem::create_directory(folder.path() + "/b.tsv");
  TextStream stream = Ok(TextStream::OpenRecords(folder.path()));
  (void)Ok(stream.Next());
  const auto second = stream.Next();
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find(folder.path() + "/b.tsv") != std::string::npos);
}

}  // namespace
}  // namespace dslide::document_folder_test
