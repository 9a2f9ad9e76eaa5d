#include "common/model/model_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/file_checksum.h"
#include "common/data/whole_file.h"
#include "common/model/ranker.h"
#include "model_generated.h"
#include "tests/common/model/small_model.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::model_file_test {
namespace {

constexpr uint32_t kFeatures = 12;
const SmallModel kSmall(kFeatures, 10, 70, 1);

uint64_t Xxh3(const std::string& bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

struct Fixture {
  TempDirectory directory;
  std::string path = directory.path() + "/m.dslide";

  std::string Write(bool int8_only = false) {
    const ModelBuilder::Options options = {.int8_only = int8_only, .cells = 4};
    REQUIRE(WriteModelFile(*kSmall.Build(options)->WithProbes(2, 0.75f), path).ok());
    return *ReadWholeFile(path);
  }
  void Damage(const std::string& bytes, const std::string& reason) {
    REQUIRE(WriteWholeFile(path, bytes).ok());
    const std::string message = MessageOf(OpenModelFile(path));
    CHECK(message.starts_with(path + ": "));
    CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
  }
};

TEST_CASE_FIXTURE(Fixture, "model file: what is written is read, and ranks the same") {
  for (const bool int8_only : {false, true}) {
    Write(int8_only);
    CHECK(IsModelFile(path));
    CHECK(VerifyModelFile(path).ok());
    const auto model = Ok(OpenModelFile(path));
    CHECK(model->info().name == "small");
    CHECK(model->info().samples == 17);
    CHECK(model->info().probes == 2);
    CHECK(model->info().index_recall == 0.75f);
    CHECK(model->cells() == 4);
    CHECK(model->arrays().weights.empty() == int8_only);
    const ModelBuilder::Options options = {.int8_only = int8_only, .cells = 4};
    Ranker from_file(model, BestKernels()), in_memory(kSmall.Build(options), BestKernels());
    const SparseRows samples = SmallSamples(20, kFeatures, 2);
    const Matrix hidden = *from_file.Embed(samples);
    CHECK(hidden == *in_memory.Embed(samples));
    const TopKReply a = from_file.Rank(hidden, {})->best, b = in_memory.Rank(hidden, {})->best;
    CHECK(a.ids == b.ids);
    CHECK(a.scores == b.scores);
  }
  CHECK(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST_CASE_FIXTURE(Fixture, "model file: label counts and logit adjustment") {
  std::vector<uint32_t> counts;
  for (uint32_t label = 0; label < kSmall.labels; ++label) counts.push_back(3 * label);
  SmallModel small = kSmall;
  small.adjustment = {-0.3f, 0.4f};
  ModelBuilder builder = small.Builder();
  builder.SetLabelCounts(counts);
  REQUIRE(WriteModelFile(*std::move(builder).Finish({}), path).ok());
  const auto model = Ok(OpenModelFile(path));
  CHECK(model->info().adjustment == small.adjustment);
  CHECK(std::ranges::equal(model->arrays().label_counts, counts));
  CHECK(VerifyModelFile(path).ok());
  counts.pop_back();
  ModelBuilder wrong = kSmall.Builder();
  wrong.SetLabelCounts(counts);
  REQUIRE(WriteModelFile(*std::move(wrong).Finish({}), path).ok());
  Damage(*ReadWholeFile(path), "its arrays do not fit each other");
}

TEST_CASE_FIXTURE(Fixture, "model file: label names") {
  SmallModel named = kSmall;
  for (uint32_t label = 0; label < named.labels; ++label) {
    named.names.push_back("label " + std::to_string(label / 2 * 2));  // each twice
  }
  named.names[5] = "7";
  REQUIRE(WriteModelFile(*named.Build(), path).ok());
  const auto model = Ok(OpenModelFile(path));
  CHECK(model->LabelName(69) == "label 68");
  CHECK(model->LabelId("label 68") == 68);  // the first
  CHECK(model->LabelId("7") == 5);          // a name goes before a number
  CHECK(model->LabelId("8") == 8);
  CHECK_FALSE(model->LabelId("label 70"));
  CHECK_FALSE(model->LabelId("70"));
  named.names.pop_back();
  REQUIRE(WriteModelFile(*named.Build(), path).ok());
  Damage(*ReadWholeFile(path), "damaged (label_names)");
}

TEST_CASE_FIXTURE(Fixture, "model file: the layout is what the header says") {
  const std::string bytes = Write();
  CHECK(bytes.substr(0, 16) == std::string("dslide model\n\0\0\0", 16));
  CHECK(bytes.substr(bytes.size() - 16) == std::string("dslide end\n\0\0\0\0\0", 16));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + bytes.size() - 32, sizeof length);
  const std::string text = bytes.substr(bytes.size() - 32 - length, length);
  const wire::ModelFile& description = *wire::GetModelFile(text.data());
  CHECK(text.substr(4, 4) == "DSLM");
  CHECK(description.format() == 1);
  CHECK(description.features() == 12);
  CHECK(description.hidden() == 10);
  CHECK(description.labels() == 70);
  CHECK(description.positions() % 16 == 0);
  size_t biases = 0;
  for (const wire::ModelSection* section : *description.sections()) {
    CHECK(section->offset() % 64 == 0);
    const std::string name = section->name()->str();
    const uint64_t checksum = Xxh3(bytes.substr(section->offset(), section->bytes()));
    CHECK(section->checksum() == checksum);
    // These are smaller than a block.
    const bool large = name == "input" || name == "rows" || name == "weights";
    CHECK(section->block_bytes() == (large ? 1 << 16 : 0));
    CHECK((section->blocks() != nullptr) == large);
    if (large) {
      CHECK(section->blocks()->size() == 1);
      CHECK(section->blocks()->Get(0) == checksum);
    }
    if (section->name()->str() == "input") {
      // bf16 of the first weight of the bias row.
      uint16_t stored = 0;
      std::memcpy(&stored, bytes.data() + section->offset() + 12 * 10 * 2, sizeof stored);
      CHECK(std::bit_cast<float>(uint32_t{stored} << 16) == kSmall.input[12 * 10]);
    }
    if (section->name()->str() != "bias") continue;
    for (size_t at = 0; at < section->bytes(); at += sizeof(float)) {
      float bias = 0;
      std::memcpy(&bias, bytes.data() + section->offset() + at, sizeof bias);
      biases += bias > -1e30f;
    }
  }
  CHECK(biases == 70);
}

TEST_CASE_FIXTURE(Fixture, "model file: other files, cut ones and damaged ones are refused") {
  const std::string bytes = Write();
  CHECK(MessageOf(OpenModelFile(path + "x")) == path + "x: cannot open: No such file or directory");
  CHECK(OpenModelFile(directory.path()).error().message ==
        directory.path() + ": cannot open: Is a directory");
  Damage("", "not a model file");
  Damage("1 2 3\n", "not a model file");
  Damage(bytes.substr(0, 16), "its end is missing");
  for (const double share : {0.01, 0.3, 0.7, 0.999}) {
    Damage(bytes.substr(0, static_cast<size_t>(share * static_cast<double>(bytes.size()))),
           "its end is missing");
  }
  std::string longer = bytes;  // a length beyond the file
  std::memset(longer.data() + longer.size() - 32, 0x7f, 8);
  Damage(longer, "its description");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + bytes.size() - 32, sizeof length);
  // A description that is not where it is written, with its right checksum.
  const std::string moved = bytes.substr(bytes.size() - 32 - length, length);
  Damage(
      bytes.substr(0, bytes.size() - 32 - length) + "odd" + moved + bytes.substr(bytes.size() - 32),
      "its description");
}

}  // namespace
}  // namespace dslide::model_file_test
