#include "common/data/text_writer.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "common/data/text_stream.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::text_writer_test {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const std::string& path) {
  TextStream stream = Ok(TextStream::Open(path));
  std::string text;
  while (true) {
    const auto line = Ok(stream.Next());
    if (!line.has_value()) return text;
    text.append(*line) += '\n';
  }
}

TEST_CASE("text writer: plain, gzip and Zstandard by the name, complete once finished") {
  const TempDirectory directory;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  for (const char* name : {"a", "a.gz", "a.zst"}) {
    const std::string path = directory.path() + "/" + name;
    TextWriter writer = Ok(TextWriter::Create(path));
    writer.Write(text);
    writer.Write("");
    CHECK_FALSE(fs::exists(path));
    REQUIRE(writer.Finish().ok());
    CHECK(TextOf(path) == text);
    CHECK((fs::file_size(path) < text.size() / 2) == (std::string(name) != "a"));
  }
  for (const char* name : {"empty", "empty.gz", "empty.zst"}) {
    const std::string path = directory.path() + "/" + name;
    TextWriter writer = Ok(TextWriter::Create(path));
    REQUIRE(writer.Finish().ok());
    CHECK(TextOf(path).empty());
  }
}

}  // namespace
}  // namespace dslide::text_writer_test
