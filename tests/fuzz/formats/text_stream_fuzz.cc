// Lines of plain, gzip and Zstandard streams, from memory and from a file.
#include "common/data/text_stream.h"

#include "common/data/text_writer.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::text_stream_fuzz {
namespace {

using fuzz::Inputs;

constexpr size_t kMostBytes = size_t{1} << 20;  // read of one input: gzip packs a thousand in one

struct Lines {
  std::string text;
  uint64_t count = 0;
  bool intact = false;
  bool operator==(const Lines&) const = default;
};

Lines Read(TextStream* stream) {
  Lines lines;
  while (lines.text.size() < kMostBytes) {
    const Result<std::optional<std::string_view>> line = stream->Next();
    if (!fuzz::Accepted(line)) {
      DSLIDE_CHECK(!stream->Next().ok());
      return lines;
    }
    if (!*line) break;
    DSLIDE_CHECK(line->value().find('\n') == std::string_view::npos);
    DSLIDE_CHECK(stream->line() == ++lines.count);
    const std::string first(**line);
    stream->PutBack();
    DSLIDE_CHECK(**stream->Next() == first);
    fuzz::CheckError(stream->BadLine(Quoted(first)));
    lines.text += first + (IsBlank(first) ? "_\n" : "\n");
  }
  lines.intact = true;
  return lines;
}

bool Run(std::string_view input) {
  Result<TextStream> memory = TextStream::FromMemory("input", std::string(input));
  Result<TextStream> file = TextStream::Open(fuzz::InputFile(input));
  DSLIDE_CHECK(memory.ok() == file.ok());
  if (!fuzz::Accepted(memory)) return false;
  const Lines lines = Read(&*memory);
  DSLIDE_CHECK(Read(&*file) == lines);
  return lines.intact;
}

std::string Packed(const std::string& name) {
  const std::string path = fuzz::InputDirectory() + "/" + name;  // its ending tells how
  Result<TextWriter> writer = TextWriter::Create(path);
  DSLIDE_CHECK(writer.ok());
  writer->Write("2 100 20\n1,3 0:0.5 7:-2\n2 5:1\n");
  DSLIDE_CHECK(writer->Finish().ok());
  return fuzz::FileBytes(path);
}

Inputs Seeds() {
  return {Packed("seed.gz"),
          Packed("seed.zst"),
          Packed("seed.gz") + Packed("seed.gz"),
          "one\ntwo\r\n\n three",
          "\xef\xbb\xbf"
          "first\n",
          "",
          "\n",
          std::string(70'000, 'x')};
}

const fuzz::Entered kEntered({"text_stream", Run, Seeds});

}  // namespace
}  // namespace dslide::text_stream_fuzz
