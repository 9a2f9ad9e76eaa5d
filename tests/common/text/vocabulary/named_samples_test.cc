// Samples and label names with a vocabulary.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/data/measures/label_counts.h"
#include "common/run/hold_out.h"
#include "common/text/samples.h"
#include "tests/common/text/fitted.h"
#include "tests/support/data_file.h"
#include "tests/support/results.h"

namespace dslide::named_samples_test {
namespace {

Vocabulary Animals() {
  return Vocabulary({"http://example.org/1", "http://example.org/2", "http://example.org/3", "4"},
                    {"cow", "cattle", "dog", "cat"}, {0, 0, 1, 2});
}

constexpr const char* kTexts =
    R"({"text": "it barks at a house", "labels": ["dog"]}
{"text": "it barks at a cattle", "labels": ["http://example.org/2", "dog"]}
{"text": "it purrs in a house", "labels": ["<https://example.org/3>", "unicorn"]}
{"text": "milk", "labels": ["cattle"]}
)";

TrainingSamples Load(const Vocabulary& vocabulary, float name_weight = 1) {
  const DataFile file(kTexts);
  return Ok(LoadTrainingSamples(
      file.path(), {.text = EveryTerm(), .vocabulary = &vocabulary, .name_weight = name_weight}));
}

TEST_CASE("vocabulary: labels of data are identifiers or names of its concepts") {
  const Vocabulary animals = Animals();
  const DataFile file(kTexts);
  const Preprocessor fitted = Ok(Preprocessor::Fit(file.path(), EveryTerm(), 1, 1, &animals));
  // By falling frequency, then as the vocabulary has them; a label without a name has its id's end.
  CHECK(fitted.label_names() == std::vector<std::string>{"dog", "cow", "cat", "4"});
  CHECK(fitted.vocabulary().ids()[1] == "http://example.org/1");
  CHECK(fitted.LabelId("cattle") == 1u);
  CHECK(fitted.LabelId("http://example.org/3") == 2u);
  CHECK_FALSE(fitted.LabelId("unicorn"));
  Preprocessor::Encoder encoder(fitted);
  const SampleView twice = encoder.Encode({{"barks"}, {"dog", "http://example.org/2", "cow"}});
  CHECK(std::vector<uint32_t>(twice.labels.begin(), twice.labels.end()) ==
        std::vector<uint32_t>{0, 1});
}

TEST_CASE(
    "vocabulary: a preprocessor with one comes back from its bytes, and is damaged in one line") {
  const Vocabulary animals = Animals();
  const DataFile file(kTexts);
  const Preprocessor fitted = Ok(Preprocessor::Fit(file.path(), EveryTerm(), 1, 1, &animals));
  const std::string bytes = fitted.ToBytes();
  const Preprocessor read = Ok(Preprocessor::FromBytes(bytes, "p"));
  CHECK(read.ToBytes() == bytes);
  CHECK(read.label_names() == fitted.label_names());
  CHECK(read.LabelId("cattle") == 1u);
  CHECK(read.LabelId("https://example.org/3/") == 2u);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    CHECK_FALSE(Preprocessor::FromBytes(bytes.substr(0, size), "p").ok());
  }
}

TEST_CASE("vocabulary: if it lacks all labels of the data, both are named") {
  const Vocabulary plants({"p1"}, {"rose"}, {0});
  const DataFile file(kTexts);
  CHECK(MessageOf(Preprocessor::Fit(file.path(), EveryTerm(), 1, 1, &plants)) ==
        file.path() +
            ": no label is in the vocabulary, which has identifiers as 'p1' and names as "
            "'rose'; a label of the file is '<https://example.org/3>' (labels.vocabulary)");
}

TEST_CASE("vocabulary: each name is a sample behind those of the file, but counts nowhere") {
  const TrainingSamples loaded = Load(Animals(), 0.5f);
  const Dataset& data = loaded.data;
  CHECK(data.records() == 4);
  REQUIRE(data.names() == 4);  // dog, cow, cattle, cat
  for (size_t n = 0; n < 4; ++n) {
    CHECK(data[4 + n].weight == 0.5f);
    CHECK(data[4 + n].features.size() > 0);
    REQUIRE(data[4 + n].labels.size() == 1);
    CHECK(data[4 + n].labels[0] == std::vector<uint32_t>{0, 1, 1, 2}[n]);
  }
  CHECK(data[0].weight == 1);
  CHECK(CountLabels(data) == std::vector<LabelCount>{{0, 2}, {1, 1}, {2, 1}});
  CHECK(Load(Animals(), 0).data.names() == 0);
  bool left_out = false;
  for (const std::string& note : loaded.notes) {
    left_out |= note.ends_with(
        "1 label that the vocabulary lacks left out, as 'unicorn', with 1 of 5 label entries");
  }
  CHECK(left_out);
}

TEST_CASE("vocabulary: names are not held out, and spare a label's last sample") {
  std::string texts;
  std::vector<std::string> ids, names;
  std::vector<uint32_t> owners;
  for (uint32_t i = 0; i < 40; ++i) {
    texts += fmt::format("{{\"text\": \"about thing{} word\", \"labels\": [\"{}\"]}}\n", i, i);
    ids.push_back(std::to_string(i));
    names.push_back(fmt::format("thing{}", i));
    owners.push_back(i);
  }
  const Vocabulary things(std::move(ids), std::move(names), std::move(owners));
  const DataFile file(texts);
  const TrainingSamples loaded = Ok(LoadTrainingSamples(
      file.path(), {.text = EveryTerm(), .vocabulary = &things, .name_weight = 1}));
  REQUIRE(loaded.data.names() == 40);
  Config config;
  config.train.heldout = 15;
  const HeldOutSamples chosen = ChooseHeldOut(loaded.data, config);
  REQUIRE(chosen.numbers.size() == 15);
  CHECK(chosen.numbers.back() < 40);
}

}  // namespace
}  // namespace dslide::named_samples_test
