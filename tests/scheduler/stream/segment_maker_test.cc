#include "scheduler/stream/segment_maker.h"

#include <doctest/doctest.h>

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "common/base/temporary_directory.h"
#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "vocabulary_generated.h"

namespace dslide {
namespace {

std::string Line(const std::string& text, const std::string& label) {
  return R"({"text": ")" + text + R"(", "labels": [")" + label + "\"]}\n";
}

TrainConfig Train(uint32_t segment_samples = 4) {
  TrainConfig train;
  train.open_vocabulary = true;
  train.segment_samples = segment_samples;
  train.admit_count = 1;
  train.expire_segments = 0;
  return train;
}

TextConfig Text() {
  TextConfig text;
  text.max_share = 1;
  return text;
}

SegmentMaker::Made Next(SegmentMaker* maker, bool ended = false) {
  auto made = maker->MakeNext(ended);
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message));
  REQUIRE(made->has_value());
  return std::move(**made);
}

// The last segment, with its vocabulary.
StoredSegment Whole(const SegmentMaker& maker) {
  StoredSegment segment = maker.stored();
  segment.vocabulary = maker.vocabulary().Save();
  return segment;
}

TEST_CASE("segments: a segment has at most so many samples, and every line is in one") {
  SegmentMaker maker(Train(), Text(), {});
  std::string all;
  for (int i = 0; i < 10; ++i) all += Line("word", "l" + std::to_string(i));
  maker.Add(all.substr(0, 30));
  CHECK(maker.lines() == 0);
  maker.Add(all.substr(30));
  CHECK(maker.lines() == 10);
  uint64_t end = 0;
  for (const size_t samples : {4, 4, 2}) {
    const SegmentMaker::Made made = Next(&maker);
    CHECK(made.segment.data->size() == samples);
    CHECK(made.segment.shape.samples == samples);
    CHECK(maker.stored().begin == end);
    end = maker.end();
  }
  CHECK(end == all.size());
  CHECK(maker.number() == 3);
  CHECK(maker.stored().lines == 10);
  CHECK(maker.stored().shape.labels == 10);
}

TEST_CASE("segments: a line without its end waits for it, or is the last one") {
  SegmentMaker maker(Train(), Text(), {});
  const std::string line = Line("word", "a");
  maker.Add(line + line.substr(0, line.size() - 1));
  CHECK(maker.lines() == 1);
  CHECK(Next(&maker).segment.data->size() == 1);
  CHECK(!maker.MakeNext(false)->has_value());
  CHECK(maker.pending() == line.size() - 1);
  CHECK(Next(&maker, true).segment.data->size() == 1);
  CHECK(maker.pending() == 0);
}

TEST_CASE("segments: lines that are no records are left out, and the first is named") {
  SegmentMaker maker(Train(), Text(), {});
  maker.Add(Line("word", "a") + "\n{\"text\": 1\n" + Line("word", "a"));
  const SegmentMaker::Made made = Next(&maker);
  CHECK(made.segment.data->size() == 2);
  CHECK(made.segment.line.find("; 1 line left out, the first is line 3: ") != std::string::npos);
  maker.Add("nonsense\n");
  CHECK(!maker.MakeNext(false)->has_value());
  CHECK(maker.TakeLeftOut().starts_with("1 line left out, the first is line 5: "));
  CHECK(maker.TakeLeftOut().empty());
  CHECK(maker.number() == 1);
  maker.Add(Line("word", "a"));
  CHECK(Next(&maker).segment.shape.epoch == 2);
}

TEST_CASE("segments: a stream of no known format is an error") {
  SegmentMaker maker(Train(), Text(), {});
  maker.Add("\n\njust words\n");
  const auto made = maker.MakeNext(false);
  REQUIRE(!made.ok());
  CHECK(made.error().message.find("begins no known format") != std::string::npos);
}

TEST_CASE("segments: a byte order mark is no part of the stream's first line, and of that alone") {
  const std::string mark = "\xef\xbb\xbf";
  for (const std::string& line :
       {Line("word", "a"), std::string("word\ta\n"), std::string("__label__a word\n")}) {
    CAPTURE(line);
    for (const std::string blank : {"", "\r\n"}) {
      SegmentMaker maker(Train(2), Text(), {}), plain(Train(2), Text(), {});
      const std::string all = mark + blank + line + line + line + line;
      maker.Add(all);
      plain.Add(blank + line + line + line + line);
      for (int segment = 0; segment < 2; ++segment) {
        const SegmentMaker::Made made = Next(&maker);
        CHECK(made.preprocessor->ToBytes() == Next(&plain).preprocessor->ToBytes());
        CHECK(made.segment.line.find("left out") == std::string::npos);
        // And so it is when the run goes on.
        const StoredSegment stored = Whole(maker);
        const std::string bytes = all.substr(stored.begin, stored.end - stored.begin);
        const SegmentMaker::Made again =
            SegmentMaker::MakeAgain(stored, OpenVocabulary(Text(), *stored.vocabulary), bytes);
        REQUIRE(again.segment.data->size() == 2);
        for (size_t i = 0; i < 2; ++i) {
          const SampleView a = (*again.segment.data)[i], b = (*made.segment.data)[i];
          CHECK(std::ranges::equal(a.features, b.features));
          CHECK(std::ranges::equal(a.labels, b.labels));
        }
        if (segment > 0) continue;
        OpenVocabulary vocabulary(Text());
        CHECK(SegmentMaker::TakeAgain(stored, bytes, &vocabulary));
        CHECK(vocabulary.Save() == *stored.vocabulary);
      }
    }
  }
  SegmentMaker twice(Train(), Text(), {}), later(Train(), Text(), {});
  twice.Add(mark + mark + Line("word", "a"));
  CHECK_FALSE(twice.MakeNext(false).ok());
  later.Add("__label__a word\n" + mark + "__label__b word\n");
  CHECK(Next(&later).segment.shape.labels == 1);  // the mark is a part of the word
}

TEST_CASE("segments: a sample in eight is asked before it is trained, with all of its labels") {
  TrainConfig train = Train(16);
  train.admit_count = 2;
  SegmentMaker maker(train, Text(), {});
  for (int i = 0; i < 16; ++i) maker.Add(Line("word", i == 7 ? "rare" : "often"));
  const SegmentMaker::Made made = Next(&maker);
  REQUIRE(made.segment.unseen->size() == 2);
  CHECK((*made.segment.unseen)[0].labels[0] == 1);  // beyond those of the model
  CHECK((*made.segment.unseen)[1].labels[0] == 0);
  CHECK((*made.segment.data)[7].labels.empty());
  CHECK(made.segment.shape.labels == 1);
}

TEST_CASE("segments: what is stored gives the same samples and goes on with the same ids") {
  const TemporaryDirectory directory("segments");
  TrainConfig train = Train(3);
  train.expire_segments = 2;
  std::string all;
  for (int i = 0; i < 30; ++i) {
    all += Line("w" + std::to_string(i % 7) + " v" + std::to_string(i / 4),
                "l" + std::to_string(i * i % 11));
  }
  SegmentMaker maker(train, Text(), {});
  maker.Add(all);
  for (uint32_t number = 1; number <= 10; ++number) {
    const SegmentMaker::Made made = Next(&maker);
    REQUIRE(WriteSegment(directory.path(), Whole(maker)).ok());
    const StoredSegment stored = Ok(ReadSegment(directory.path(), number, true));
    CHECK(stored.shape == made.segment.shape);
    const SegmentMaker::Made again =
        SegmentMaker::MakeAgain(stored, OpenVocabulary(Text(), *stored.vocabulary),
                                all.substr(stored.begin, stored.end - stored.begin));
    CHECK(again.preprocessor->ToBytes() == made.preprocessor->ToBytes());
    CHECK(again.segment.shape == made.segment.shape);
    CHECK(again.segment.preprocessor == made.segment.preprocessor);
    REQUIRE(again.segment.data->size() == made.segment.data->size());
    for (size_t i = 0; i < again.segment.data->size(); ++i) {
      const SampleView a = (*again.segment.data)[i], b = (*made.segment.data)[i];
      CHECK(std::ranges::equal(a.labels, b.labels));
      CHECK(std::ranges::equal(a.features, b.features));
      CHECK(std::ranges::equal(a.values, b.values));
    }
    if (number == 10) break;
    // Another life cuts the rest in the same places, and numbers it the same.
    SegmentMaker resumed(train, Text(), stored);
    resumed.Add(all.substr(stored.end));
    const SegmentMaker::Made next = Next(&resumed);
    SegmentMaker whole(train, Text(), {});
    whole.Add(all);
    for (uint32_t n = 0; n < number; ++n) (void)Next(&whole);
    CHECK(next.preprocessor->ToBytes() == Next(&whole).preprocessor->ToBytes());
    CHECK(resumed.stored().shape == whole.stored().shape);
    CHECK(resumed.end() == whole.end());
  }
}

TEST_CASE("segments: names that there is no room for are counted in the line") {
  TextConfig text = Text();
  text.title = false;
  SegmentMaker maker(Train(5), text, {}, {500, 100, 100});
  maker.Add(Line("word", "a") + Line("word", "b") + Line("word", "c") + Line("word", "d") +
            Line("word", "e"));
  const SegmentMaker::Made made = Next(&maker);
  CHECK(made.segment.shape.labels == 4);
  CHECK(made.segment.shape.features == 1);
  CHECK(maker.kept_out() == 1);
  CHECK(made.segment.line.ends_with("; no room for 1 more name (train.vocabulary_mb)"));
}

TEST_CASE("segments: names of files") {
  CHECK(SegmentName(7) == "segment-000000007");
  CHECK(SegmentNumberOf(SegmentName(7)) == 7);
  CHECK(SegmentNumberOf(SegmentName(2'147'483'648)) == 2'147'483'648);
  for (const char* name :
       {"segment-", "segment-1.tmp", "input-000000001", "segment--1", "source"}) {
    CHECK(SegmentNumberOf(name) == 0);
  }
}

// Format 1, which always has the vocabulary and not the rules.
StoredSegment OfFormat1(const std::string& directory, StoredSegment segment) {
  flatbuffers::FlatBufferBuilder builder;
  const auto names = [&](const StoredNames& n) {
    std::vector<uint8_t> bytes;
    std::vector<uint64_t> ends;
    for (const std::string& name : n.names) {
      bytes.insert(bytes.end(), name.begin(), name.end());
      ends.push_back(bytes.size());
    }
    return wire::CreateNamesDirect(builder, &n.hashes, &n.blocks, &n.counts, &n.seen, &bytes,
                                   &ends);
  };
  const OpenVocabulary::State& v = *segment.vocabulary;
  const auto features = names(v.features), new_features = names(v.new_features);
  const auto labels = names(v.labels), new_labels = names(v.new_labels);
  wire::FinishVocabularyBuffer(
      builder, wire::CreateVocabulary(
                   builder, 1, segment.number, static_cast<uint8_t>(segment.format), segment.begin,
                   segment.end, segment.samples, segment.lines, v.counted, features, new_features,
                   labels, new_labels, 0, 0, 0, segment.checksum));
  std::ofstream(directory + "/" + SegmentName(segment.number), std::ios::binary)
      .write(reinterpret_cast<const char*>(builder.GetBufferPointer()),
             static_cast<std::streamsize>(builder.GetSize()));
  return segment;
}

TEST_CASE("segments: a file of format 1 is read, one of a later format is refused") {
  const TemporaryDirectory directory("segments");
  SegmentMaker maker(Train(), Text(), {});
  maker.Add(Line("word", "a") + Line("word", "b"));
  (void)Next(&maker);
  const StoredSegment before = OfFormat1(directory.path(), Whole(maker));
  const Result<StoredSegment> stored = ReadSegment(directory.path(), 1, true);
  REQUIRE_MESSAGE(stored.ok(), (stored.ok() ? "" : stored.error().message));
  CHECK(stored->has_vocabulary);
  CHECK(*stored->vocabulary == *before.vocabulary);
  CHECK(stored->shape == before.shape);
  const std::string path = directory.path() + "/" + SegmentName(1);
  REQUIRE(WriteSegment(directory.path(), Whole(maker)).ok());
  std::string bytes = Ok(ReadWholeFile(path));
  auto* table = flatbuffers::GetMutableRoot<flatbuffers::Table>(bytes.data());
  REQUIRE(table->SetField<uint32_t>(wire::Vocabulary::VT_FORMAT, 3, 0));
  REQUIRE(WriteWholeFile(path, bytes).ok());
  const Result<StoredSegment> later = ReadSegment(directory.path(), 1);
  REQUIRE(!later.ok());
  CHECK(later.error().message == path + ": format 3, this program reads formats 1 to 2");
}

TEST_CASE("segments: the bytes of a file without its vocabulary") {
  const TemporaryDirectory directory("segments");
  StoredSegment segment;
  segment.number = 3;
  segment.begin = 5;
  segment.end = 9;
  segment.lines = 4;
  segment.samples = 2;
  segment.shape = {3, 6, 7, 2, {1}, {2}, {3}};
  segment.checksum = 8;
  uint64_t checksum = 10787902065571396723u;
  SUBCASE("as before counts of candidates fell") {
    segment.rules = {10, 11, {12, 13, 14}, false};
    checksum = 236128351767879195;
  }
  SUBCASE("as now") { segment.rules = {10, 11, {12, 13, 14}, true}; }
  REQUIRE(WriteSegment(directory.path(), segment).ok());
  const std::string bytes = Ok(ReadWholeFile(directory.path() + "/" + SegmentName(3)));
  CHECK(bytes.size() == 192);
  CHECK(XXH3_64bits(bytes.data(), bytes.size()) == checksum);
  const StoredSegment read = Ok(ReadSegment(directory.path(), 3, true));
  CHECK(!read.has_vocabulary);
  CHECK(!read.vocabulary);
  CHECK(read.shape == segment.shape);
  CHECK(read.rules == segment.rules);
  CHECK(read.begin == 5);
  CHECK(read.end == 9);
  CHECK(read.lines == 4);
  CHECK(read.checksum == 8);
}

TEST_CASE("segments: a damaged file is named") {
  const TemporaryDirectory directory("segments");
  SegmentMaker maker(Train(), Text(), {});
  maker.Add(Line("word", "a"));
  (void)Next(&maker);
  REQUIRE(WriteSegment(directory.path(), Whole(maker)).ok());
  const std::string path = directory.path() + "/" + SegmentName(1);
  REQUIRE(truncate(path.c_str(), 40) == 0);
  const Result<StoredSegment> stored = ReadSegment(directory.path(), 1);
  REQUIRE(!stored.ok());
  CHECK(stored.error().message == path + ": damaged (40 bytes)");
}

}  // namespace
}  // namespace dslide
