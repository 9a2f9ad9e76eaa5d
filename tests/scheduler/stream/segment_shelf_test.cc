#include "scheduler/stream/segment_shelf.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "common/base/random.h"
#include "common/base/temporary_directory.h"
#include "scheduler/stream/segment_maker.h"
#include "tests/support/results.h"

namespace dslide::segment_shelf_test {
namespace {

namespace fs = std::filesystem;

TextConfig Text() {
  TextConfig text;
  text.max_share = 1;
  return text;
}

// Segments of a stream whose names come and go, in a spool and on a shelf.
struct Stream {
  explicit Stream(uint32_t expire_segments = 4) {
    train.segment_samples = 50;
    train.expire_segments = expire_segments;
    Spool opened = Ok(Spool::Open(directory.path()));
    spool.emplace(std::move(opened));
    maker.emplace(train, Text(), StoredSegment());
  }
  void Make(uint32_t segments, uint64_t words = 300, uint32_t samples = 50) {
    for (uint32_t i = 0; i < segments; ++i) {
      std::string lines;
      for (uint32_t n = 0; n < samples; ++n) {
        const std::string word = std::to_string(random.Below(words) + maker->number());
        lines += R"({"text": "w)" + word + R"( and more", "labels": ["l)" + word + "\"]}\n";
      }
      REQUIRE(spool->Append(lines).ok());
      maker->Add(lines);
      const auto made = Ok(maker->MakeNext(false));
      preprocessors.push_back(made->preprocessor->ToBytes());
      REQUIRE(shelf->Add(maker->stored(), maker->vocabulary()).ok());
    }
  }
  uint64_t VocabularyBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(directory.path())) {
      const uint32_t number = SegmentNumberOf(entry.path().filename());
      if (number > 0) bytes += entry.file_size();
    }
    return bytes;
  }
  std::vector<uint32_t> Numbers() const {
    std::vector<uint32_t> numbers;
    for (const auto& entry : fs::directory_iterator(directory.path())) {
      const uint32_t number = SegmentNumberOf(entry.path().filename());
      if (number > 0) numbers.push_back(number);
    }
    std::ranges::sort(numbers);
    return numbers;
  }

  TemporaryDirectory directory{"shelf"};
  TrainConfig train;
  Random random{3};
  std::optional<Spool> spool;
  std::optional<SegmentMaker> maker;
  std::optional<SegmentShelf> shelf = SegmentShelf(directory.path(), Text());
  std::vector<std::string> preprocessors;  // of segments 1, 2, ...
};

TEST_CASE("segment shelf: every vocabulary is made again as it was, in any order") {
  Stream stream;
  stream.Make(60);
  SegmentShelf shelf(stream.directory.path(), Text());
  for (const uint32_t number : {60, 1, 31, 32, 33, 12, 12, 60, 59}) {
    const auto vocabulary = shelf.VocabularyOf(number, *stream.spool);
    REQUIRE_MESSAGE(vocabulary.ok(), (vocabulary.ok() ? "" : vocabulary.error().message));
    CHECK((*vocabulary)->MakePreprocessor().ToBytes() == stream.preprocessors[number - 1]);
  }
}

TEST_CASE("segment shelf: vocabularies take little more than the stream") {
  Stream stream(0);
  stream.Make(200, 3000);
  uint64_t vocabulary = 0;
  for (const uint32_t number : stream.Numbers()) {
    vocabulary =
        std::max(vocabulary, fs::file_size(stream.directory.path() + "/" + SegmentName(number)));
  }
  // And two besides, and one for 64 segments.
  CHECK(stream.VocabularyBytes() < stream.spool->end() + (2 + 200 / 64) * vocabulary);
  CHECK(stream.VocabularyBytes() < 200 * vocabulary / 10);
}

TEST_CASE("segment shelf: on a slow stream, too, a vocabulary is not far") {
  Stream stream(0);
  stream.Make(40, 3000);  // names for a vocabulary that is large beside the segments that come
  stream.Make(200, 10, 1);
  uint32_t since = 0, longest = 0;
  for (const uint32_t number : stream.Numbers()) {
    since = ReadSegment(stream.directory.path(), number)->has_vocabulary ? 0 : since + 1;
    longest = std::max(longest, since);
  }
  CHECK(longest > 30);
  CHECK(longest < 64);
}

TEST_CASE(
    "segment shelf: what an earlier start has left behind the newest segment is not its next") {
  Stream stream;
  stream.Make(6);
  StoredSegment stale = Ok(ReadSegment(stream.directory.path(), 6));
  stale.begin -= 10;
  REQUIRE(WriteSegment(stream.directory.path(), stale).ok());
  SegmentShelf shelf(stream.directory.path(), Text());
  const StoredSegment newest = Ok(shelf.Newest(4, *stream.spool));
  CHECK(newest.number == 5);
}

TEST_CASE("segment shelf: another life goes on as this one") {
  Stream stream;
  stream.Make(23);
  SegmentShelf shelf(stream.directory.path(), Text());
  const StoredSegment newest = Ok(shelf.Newest(20, *stream.spool));
  CHECK(newest.number == 23);
  CHECK(*newest.vocabulary == stream.maker->vocabulary().Save());
  stream.shelf.emplace(std::move(shelf));
  stream.maker.emplace(stream.train, Text(), newest);
  stream.Make(10);
  for (const uint32_t number : {33, 22}) {
    const auto vocabulary = stream.shelf->VocabularyOf(number, *stream.spool);
    REQUIRE(vocabulary.ok());
    CHECK((*vocabulary)->MakePreprocessor().ToBytes() == stream.preprocessors[number - 1]);
  }
}

TEST_CASE("segment shelf: what the oldest segment needs stays, the rest goes") {
  Stream stream;
  stream.Make(60);
  REQUIRE(stream.shelf->Forget(50, &*stream.spool).ok());
  const std::vector<uint32_t> kept = stream.Numbers();
  CHECK(kept.front() > 1);
  CHECK(kept.front() <= 50);
  CHECK(kept.back() == 60);
  CHECK(ReadSegment(stream.directory.path(), kept.front())->has_vocabulary);
  for (const uint32_t number : {50, 60, 51}) {
    const auto vocabulary = stream.shelf->VocabularyOf(number, *stream.spool);
    REQUIRE(vocabulary.ok());
    CHECK((*vocabulary)->MakePreprocessor().ToBytes() == stream.preprocessors[number - 1]);
  }
  CHECK(!stream.shelf->VocabularyOf(1, *stream.spool).ok());
}

TEST_CASE("segment shelf: lines that give something else are an error that names the file") {
  Stream stream;
  stream.Make(3);
  StoredSegment changed = stream.shelf->Read(2).ok() ? *stream.shelf->Read(2) : StoredSegment();
  REQUIRE(!changed.has_vocabulary);
  changed.shape.labels++;
  REQUIRE(WriteSegment(stream.directory.path(), changed).ok());
  const auto vocabulary = stream.shelf->VocabularyOf(3, *stream.spool);
  REQUIRE(!vocabulary.ok());
  CHECK(vocabulary.error().message.starts_with(stream.directory.path() + "/" + SegmentName(2) +
                                               ": the lines of the stream do not give"));
  CHECK(stream.shelf->VocabularyOf(1, *stream.spool).ok());

  // As sizes may be, while names and weights are not.
  changed.shape.labels--;
  changed.checksum++;
  REQUIRE(WriteSegment(stream.directory.path(), changed).ok());
  fs::remove(stream.directory.path() + "/" + SegmentName(3));
  const Result<StoredSegment> newest =
      SegmentShelf(stream.directory.path(), Text()).Newest(2, *stream.spool);
  REQUIRE(!newest.ok());
  CHECK(newest.error().message.starts_with(stream.directory.path() + "/" + SegmentName(2) +
                                           ": the lines of the stream do not give"));
}

}  // namespace
}  // namespace dslide::segment_shelf_test
