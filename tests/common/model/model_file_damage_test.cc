// Model files with changed bytes: each is refused, on opening or before the first use of the
// changed bytes, or these bytes mean nothing.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "common/checkpoint/file_checksum.h"
#include "common/data/whole_file.h"
#include "common/model/model_file.h"
#include "common/model/ranker.h"
#include "model_generated.h"
#include "tests/common/model/small_model.h"
#include "tests/support/change_byte.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::model_file_damage_test {
namespace {

constexpr size_t kTail = 32;  // length, checksum, "dslide end\n"
constexpr size_t kBlock = 64 << 10;
constexpr ModelSearch kSearches[] = {ModelSearch::kExact, ModelSearch::kScan, ModelSearch::kIndex};

uint64_t Xxh3(std::string_view bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

size_t DescriptionBegin(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data() + file.size() - kTail, sizeof length);
  return file.size() - kTail - length;
}

const wire::ModelFile& DescriptionOf(const std::string& file) {
  return *wire::GetModelFile(file.data() + DescriptionBegin(file));
}

struct Part {
  uint64_t offset, bytes;
};
std::map<std::string, Part> SectionsOf(const std::string& file) {
  std::map<std::string, Part> parts;
  for (const wire::ModelSection* section : *DescriptionOf(file).sections()) {
    parts[section->name()->str()] = {section->offset(), section->bytes()};
  }
  return parts;
}

using Sections = std::vector<flatbuffers::Offset<wire::ModelSection>>;

// The file with other sections in its description, and another configuration and number of
// features.
std::string WithSections(const std::string& file, const std::string& config, uint32_t features,
                         flatbuffers::FlatBufferBuilder* builder, const Sections& sections) {
  const wire::ModelFile& from = DescriptionOf(file);
  wire::FinishModelFileBuffer(
      *builder, wire::CreateModelFileDirect(*builder, from.format(), from.name()->c_str(),
                                            config.c_str(), from.samples(), features, from.hidden(),
                                            from.labels(), from.positions(), from.cells(),
                                            from.probes(), from.index_recall(), &sections));
  const std::string_view description(reinterpret_cast<const char*>(builder->GetBufferPointer()),
                                     builder->GetSize());
  const uint64_t tail[] = {description.size(), Xxh3(description)};
  std::string made = file.substr(0, DescriptionBegin(file));
  made += description;
  made.append(reinterpret_cast<const char*>(tail), sizeof tail);
  return made + file.substr(file.size() - 16);
}

// The file with other block checksums: as an earlier version wrote it, without any, or changed
// ones.
std::string WithBlocks(const std::string& file, uint32_t block_bytes,
                       const std::optional<std::vector<uint64_t>>& blocks) {
  const wire::ModelFile& from = DescriptionOf(file);
  flatbuffers::FlatBufferBuilder builder;
  Sections sections;
  for (const wire::ModelSection* s : *from.sections()) {
    const bool has_blocks = s->blocks() != nullptr && blocks.has_value();
    sections.push_back(wire::CreateModelSectionDirect(
        builder, s->name()->c_str(), s->offset(), s->bytes(), s->checksum(),
        has_blocks ? block_bytes : 0, has_blocks ? &*blocks : nullptr));
  }
  return WithSections(file, from.config()->str(), from.features(), &builder, sections);
}

struct Answers {
  Matrix hidden;
  std::vector<TopKReply> best;  // of each search

  bool operator==(const Answers& other) const {
    return hidden == other.hidden &&
           std::ranges::equal(best, other.best, [](const TopKReply& a, const TopKReply& b) {
             return a.offsets == b.offsets && a.ids == b.ids && a.scores == b.scores;
           });
  }
};

Result<Answers> Ask(const std::shared_ptr<const Model>& model, const SparseRows& samples,
                    std::span<const ModelSearch> searches = kSearches) {
  Ranker ranker(model, BestKernels());
  Result<Matrix> hidden = ranker.Embed(samples);
  DSLIDE_RETURN_IF_ERROR(hidden);
  Answers answers{*hidden, {}};
  for (const ModelSearch search : searches) {
    RankRequest request;
    request.search = search;
    request.probabilities = true;
    Result<RankedLabels> ranked = ranker.Rank(*hidden, request);
    DSLIDE_RETURN_IF_ERROR(ranked);
    answers.best.push_back(std::move(ranked->best));
  }
  return answers;
}

struct Fixture {
  TempDirectory directory;
  std::string path = directory.path() + "/m.dslide";

  void Put(const std::string& bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string Written(const SmallModel& small, const ModelBuilder::Options& options) const {
    REQUIRE(
        WriteModelFile(*small.Build(options)->WithProbes(2, 0.75f)->WithNotes("notes"), path).ok());
    return *ReadWholeFile(path);
  }
  // The answers of the model in the file.
  Result<Answers> AskFile(ModelMemory memory, const SparseRows& samples) const {
    const auto model = OpenModelFile(path, memory);
    DSLIDE_RETURN_IF_ERROR(model);
    return Ask(*model, samples);
  }
};

// Every `stride`-th byte of a file, and the first and last ones of all its parts.
std::vector<size_t> SomeBytes(const std::string& file, size_t stride) {
  std::vector<size_t> places;
  for (size_t at = 0; at < file.size(); at += stride) places.push_back(at);
  for (const auto& [name, part] : SectionsOf(file)) {
    places.push_back(part.offset);
    places.push_back(part.offset + part.bytes - 1);
  }
  places.push_back(DescriptionBegin(file));
  for (size_t at = file.size() - kTail; at < file.size(); ++at) places.push_back(at);
  return places;
}

bool IsPadding(const std::string& file, size_t at) {
  if (at < 16 || at >= DescriptionBegin(file)) return false;
  return std::ranges::none_of(SectionsOf(file), [&](const auto& named) {
    return at >= named.second.offset && at < named.second.offset + named.second.bytes;
  });
}

TEST_CASE_FIXTURE(Fixture, "model file: a changed byte anywhere is refused, or is padding") {
  constexpr uint32_t kFeatures = 12;
  SmallModel small(kFeatures, 10, 70, 1);
  for (uint32_t label = 0; label < small.labels; ++label) {
    small.names.push_back("label " + std::to_string(label));
  }
  const SparseRows samples = SmallSamples(20, kFeatures, 2);
  for (const bool int8_only : {false, true}) {
    const std::string with_blocks = Written(small, {.int8_only = int8_only, .cells = 4});
    // Earlier versions have a checksum of the whole section only.
    for (const std::string& file : {with_blocks, WithBlocks(with_blocks, 0, std::nullopt)}) {
      Put(file);
      const Answers expected = Ok(AskFile(ModelMemory::kMapped, samples));
      for (const ModelMemory memory : {ModelMemory::kMapped, ModelMemory::kCopied}) {
        size_t refused = 0;
        for (const size_t at : SomeBytes(file, 23)) {
          CAPTURE(at);
          testing::ChangeByte(path, at, 1 << at % 8);
          const Result<Answers> answers = AskFile(memory, samples);
          CHECK(answers.ok() == IsPadding(file, at));
          CHECK(VerifyModelFile(path).ok() == answers.ok());
          testing::ChangeByte(path, at, 1 << at % 8);  // as it was
          if (answers.ok()) {
            CHECK(*answers == expected);
            continue;
          }
          ++refused;
          CHECK(answers.error().kind == ErrorKind::kBadInput);
          CHECK(answers.error().message.starts_with(path + ": "));
        }
        CHECK(refused > 100);
      }
    }
  }
}

// Ids of the bias and of dense layers come behind the features: they must not begin again at 0.
TEST_CASE_FIXTURE(Fixture, "model file: more features than ids are refused") {
  const std::string file = Written(SmallModel(12, 10, 70, 1), {.int8_only = false, .cells = 4});
  const wire::ModelFile& from = DescriptionOf(file);
  std::string config = from.config()->str();
  const std::string was = "features = 12\n";
  REQUIRE(config.find(was) != std::string::npos);
  config.replace(config.find(was), was.size(), "features = 4294967295\n");
  flatbuffers::FlatBufferBuilder builder;
  Sections sections;
  for (const wire::ModelSection* s : *from.sections()) {
    // An input array of no row: D + 1 modulo 2^32.
    const uint64_t size = s->name()->string_view() == "input" ? 0 : s->bytes();
    sections.push_back(wire::CreateModelSectionDirect(builder, s->name()->c_str(), s->offset(),
                                                      size, s->checksum()));
  }
  Put(WithSections(file, config, 4294967295u, &builder, sections));
  const std::string message = MessageOf(OpenModelFile(path));
  CHECK(message.starts_with(path));
  CHECK(message.find("model.features = 4294967295") != std::string::npos);
}

// Features in several blocks, and rows and weights in several, too.
struct LargeFixture : Fixture {
  static constexpr uint32_t kFeatures = 2000, kHidden = 64, kLabels = 3000;
  static constexpr uint32_t kRowsOfBlock = kBlock / (2 * kHidden);
  std::string file =
      Written(SmallModel(kFeatures, kHidden, kLabels, 3), {.int8_only = false, .cells = 40});

  static SparseRows SampleOf(uint32_t feature) {
    SparseRows rows;
    rows.ids = {feature};
    rows.values = {1};
    rows.EndRow();
    return rows;
  }
  void Damage(const std::string& section, size_t at) const {
    std::string damaged = file;
    const Part part = SectionsOf(file)[section];
    REQUIRE(at < part.bytes);
    damaged[part.offset + at] = static_cast<char>(damaged[part.offset + at] ^ 0x40);
    Put(damaged);
  }
  std::string DamagedMessage(const std::string& section) const {
    return path + ": damaged (" + section + "); copy it again, or export it again";
  }
};

TEST_CASE_FIXTURE(LargeFixture, "model file: each block of a large section has its checksum") {
  for (const wire::ModelSection* section : *DescriptionOf(file).sections()) {
    if (section->blocks() == nullptr) continue;
    CAPTURE(section->name()->str());
    CHECK(section->block_bytes() == kBlock);
    CHECK(section->blocks()->size() > 2);
    REQUIRE(section->blocks()->size() == (section->bytes() + kBlock - 1) / kBlock);
    const std::string bytes = file.substr(section->offset(), section->bytes());
    for (uint32_t b = 0; b < section->blocks()->size(); ++b) {
      CHECK(section->blocks()->Get(b) == Xxh3(std::string_view(bytes).substr(b * kBlock, kBlock)));
    }
  }
}

TEST_CASE_FIXTURE(LargeFixture,
                  "model file: a block is checked before its first use, not earlier") {
  const Answers expected = Ok(AskFile(ModelMemory::kMapped, SampleOf(0)));
  Damage("input", kBlock);  // the first byte of the second block
  const auto model = Ok(OpenModelFile(path));
  const Result<Answers> of_first = Ask(model, SampleOf(kRowsOfBlock - 1));
  CHECK(of_first.ok());
  CHECK(MessageOf(Ask(model, SampleOf(2 * kRowsOfBlock - 1))) == DamagedMessage("input"));
  const Answers again = Ok(Ask(model, SampleOf(0)));
  CHECK(again == expected);
  // A copy has read all of it.
  CHECK(OpenModelFile(path, ModelMemory::kCopied).error().message == DamagedMessage("input"));
  // Nothing is written of a damaged model, with checksums that would fit.
  CHECK(WriteModelFile(*model, path + ".2").error().message == DamagedMessage("input"));
}

TEST_CASE_FIXTURE(LargeFixture,
                  "model file: a search meets damage only of the rows that it reads") {
  const ModelSearch exact[] = {ModelSearch::kExact}, scan[] = {ModelSearch::kScan};
  Damage("rows", 2 * kBlock);
  auto model = OpenModelFile(path);
  REQUIRE(model.ok());
  CHECK(Ask(*model, SampleOf(1), exact).ok());
  CHECK(Ask(*model, SampleOf(1), scan).error().message == DamagedMessage("rows"));
  Damage("weights", 3 * kBlock);
  model = OpenModelFile(path);
  REQUIRE(model.ok());
  CHECK(Ask(*model, SampleOf(1), exact).error().message == DamagedMessage("weights"));
}

TEST_CASE_FIXTURE(LargeFixture, "model file: block checksums that do not fit are refused") {
  const uint64_t most = UINT32_MAX;
  for (const auto& [bytes, count] : {std::pair<uint32_t, size_t>{kBlock, 1},
                                     {kBlock, 0},
                                     {1, 3},
                                     {static_cast<uint32_t>(most), 2}}) {
    CAPTURE(bytes);
    CAPTURE(count);
    Put(WithBlocks(file, bytes, std::vector<uint64_t>(count, 1)));
    CHECK(MessageOf(OpenModelFile(path)) == DamagedMessage("its description"));
  }
  Put(WithBlocks(file, static_cast<uint32_t>(most),
                 std::vector<uint64_t>{7}));  // fits, but differs
  CHECK_FALSE(AskFile(ModelMemory::kMapped, SampleOf(0)).ok());
}

}  // namespace
}  // namespace dslide::model_file_damage_test
