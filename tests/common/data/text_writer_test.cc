#include "common/data/text_writer.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "common/data/text_stream.h"
#include "tests/support/temp_directory.h"

namespace dslide::text_writer_test {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const std::string& path) {
  Result<TextStream> stream = TextStream::Open(path);
  REQUIRE(stream.ok());
  std::string text;
  while (true) {
    const auto line = stream->Next();
    REQUIRE(line.ok());
    if (!line->has_value()) return text;
    text.append(**line) += '\n';
  }
}

TEST_CASE("text writer: plain, gzip and Zstandard by the name, complete once finished") {
  const TempDirectory directory;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  for (const char* name : {"a", "a.gz", "a.zst"}) {
    const std::string path = directory.path() + "/" + name;
    Result<TextWriter> writer = TextWriter::Create(path);
    REQUIRE(writer.ok());
    writer->Write(text);
    writer->Write("");
    CHECK_FALSE(fs::exists(path));
    REQUIRE(writer->Finish().ok());
    CHECK(TextOf(path) == text);
    CHECK((fs::file_size(path) < text.size() / 2) == (std::string(name) != "a"));
  }
  for (const char* name : {"empty", "empty.gz", "empty.zst"}) {
    const std::string path = directory.path() + "/" + name;
    Result<TextWriter> writer = TextWriter::Create(path);
    REQUIRE(writer.ok());
    REQUIRE(writer->Finish().ok());
    CHECK(TextOf(path).empty());
  }
}

TEST_CASE("text writer: what is not finished leaves nothing, and a full device is named") {
  const TempDirectory directory;
  {
    Result<TextWriter> writer = TextWriter::Create(directory.path() + "/a.zst");
    REQUIRE(writer.ok());
    writer->Write("text");
  }
  CHECK(fs::is_empty(directory.path()));
  const Result<TextWriter> nowhere = TextWriter::Create(directory.path() + "/none/a");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message ==
        directory.path() + "/none/a: cannot create: No such file or directory");
  Result<TextWriter> full = TextWriter::Create("/dev/full");
  REQUIRE(full.ok());
  full->Write(std::string(100'000, 'x'));
  const Status finished = full->Finish();
  REQUIRE_FALSE(finished.ok());
  CHECK(finished.error().message == "/dev/full: cannot write: No space left on device");
  CHECK(fs::exists("/dev/full"));
}

}  // namespace
}  // namespace dslide::text_writer_test
