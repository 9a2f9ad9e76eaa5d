#include "common/text/hashed_terms.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/text/records/line_blocks.h"
#include "tests/common/text/fitted.h"

namespace dslide {
namespace {

using Vector = std::map<uint32_t, float>;

TextConfig Hashed(uint32_t bits) {
  TextConfig config = EveryTerm();
  config.hash_bits = bits;
  return config;
}

TextConfig HashedWords(uint32_t bits) {
  TextConfig config = Hashed(bits);
  config.title = false;
  return config;
}

Vector VectorOf(const Preprocessor& preprocessor, const Record& record) {
  Preprocessor::Encoder encoder(preprocessor);
  const SampleView sample = encoder.Encode(record);
  Vector vector;
  for (size_t i = 0; i < sample.features.size(); ++i) {
    CHECK((i == 0 || sample.features[i - 1] < sample.features[i]));
    vector[sample.features[i]] = sample.values[i];
  }
  return vector;
}

uint32_t IdOfWord(const std::string& word, uint32_t bits) {
  TermExtractor extractor(HashedWords(bits));
  return HashedId(extractor.TermsOf({{word}, {}})[0], bits);
}

constexpr const char* kThreeTexts =
    R"({"text": "The cat sat. The cat ran!", "labels": ["a"]}
{"text": "A dog sat on the mat", "labels": ["b"]}
{"text": "Cat and dog: cat, dog, cat", "labels": ["b"]}
)";

TEST_CASE("a byte holds any idf to 4.4 hundredths") {
  for (const uint64_t samples : {1ul, 2ul, 10ul, 90452ul, 4294967295ul}) {
    for (uint64_t having = 1; having <= samples; having = having * 3 + 1) {
      const double idf =
          1 + std::log((1.0 + static_cast<double>(samples)) / (1.0 + static_cast<double>(having)));
      REQUIRE(std::abs(IdfOf(IdfCode(having, samples)) - idf) < 0.0434);
    }
    CHECK(IdfCode(samples, samples) == 1);
  }
  CHECK(IdfOf(0) == 0);
  CHECK(IdfOf(1) == 1);
  CHECK(IdfOf(9) == doctest::Approx(1 + std::log(2.0)));
}

// Those of scikit-learn's TfidfVectorizer (preprocessor_test.cc) but for the rounded idf.
TEST_CASE("values are those of a vocabulary, at the ids of the hashes") {
  const Preprocessor preprocessor = Fitted(kThreeTexts, HashedWords(20));
  CHECK(preprocessor.num_features() == 1u << 20);
  const Vector vector = VectorOf(preprocessor, {{"The cat sat. The cat ran!"}, {}});
  const std::map<std::string, double> expected = {
      {"ran", 0.401429}, {"sat", 0.305297}, {"cat", 0.610594}, {"the", 0.610594}};
  REQUIRE(vector.size() == expected.size());
  for (const auto& [word, value] : expected) {
    CAPTURE(word);
    REQUIRE(vector.contains(IdOfWord(word, 20)));
    CHECK(vector.at(IdOfWord(word, 20)) == doctest::Approx(value).epsilon(0.03));
  }
  CHECK(VectorOf(preprocessor, {{"unknown words"}, {}}).empty());
}

TEST_CASE("an id is left out by the samples that have it") {
  TextConfig config = HashedWords(20);
  config.min_samples = 2;
  config.max_share = 0.5f;
  const std::string text = R"({"text": "often some once", "labels": ["a"]}
{"text": "often some some", "labels": ["a"]}
{"text": "often", "labels": ["a"]}
{"text": "often", "labels": ["a"]}
)";
  const Preprocessor preprocessor = Fitted(text, config);
  const Vector vector = VectorOf(preprocessor, {{"often some once"}, {}});
  CHECK(vector == Vector{{IdOfWord("some", 20), 1.0f}});
}

// 1,024 ids for more terms than that, in three blocks of terms.
TEST_CASE("terms with the same id are added, each with the scale of its block") {
  Random random(7);
  std::string words, title;
  for (int i = 0; i < 600; ++i) words += fmt::format("w{} ", random.Below(900));
  for (int i = 0; i < 80; ++i) title += fmt::format("w{} ", random.Below(900));
  const TextConfig config = Hashed(10);
  const Preprocessor preprocessor = Fitted(
      fmt::format("{{\"title\": \"{}\", \"text\": \"{}\", \"labels\": [\"a\"]}}", title, words),
      config);
  const Record record{{title, words}, {}};
  // All idf are 1. By block and id, how often it occurs.
  TermExtractor extractor(config);
  const auto terms = extractor.TermsOf(record);
  std::map<TermBlock, std::map<uint32_t, double>> blocks;
  for (size_t t = 0; t < terms.size(); ++t) {
    blocks[extractor.BlockOf(t)][HashedId(terms[t], 10)] += 1;
  }
  REQUIRE(blocks.size() == 3);
  std::map<uint32_t, double> expected;
  for (const auto& [block, counts] : blocks) {
    double squares = 0;
    for (const auto& [id, count] : counts) squares += count * count;
    const double length = block == TermBlock::kTitlePairs ? 0.7 : 1.0;
    for (const auto& [id, count] : counts) {
      expected[id] += count * length / std::sqrt(squares * 2.49);
    }
  }
  const Vector vector = VectorOf(preprocessor, record);
  REQUIRE(vector.size() == expected.size());
  for (const auto& [id, value] : vector) REQUIRE(value == doctest::Approx(expected.at(id)));
}

TEST_CASE("counts do not depend on the number of threads") {
  Random random(3);
  std::string text;
  for (size_t i = 0; i < 2 * LineBlock::kMostLines + 5; ++i) {
    text += "{\"text\": \"";
    for (int w = 0; w < 8; ++w) text += fmt::format("word{} ", random.Below(3000));
    text += fmt::format("\", \"labels\": [{}]}}\n", random.Below(50));
  }
  const std::string one = Fitted(text, Hashed(12), 1).ToBytes();
  CHECK(Fitted(text, Hashed(12), 3).ToBytes() == one);
  CHECK(Fitted(text, Hashed(12), 8).ToBytes() == one);
}

TEST_CASE("an extension has the same features, and new words count") {
  const Preprocessor known = Fitted(kThreeTexts, HashedWords(16));
  CHECK(VectorOf(known, {{"cat fox"}, {}}).size() == 1);
  const Preprocessor extended = Extended(known, R"({"text": "cat fox", "labels": ["c", "b"]})");
  CHECK(extended.num_features() == known.num_features());
  CHECK(extended.label_names() == std::vector<std::string>{"b", "a", "c"});
  CHECK(VectorOf(extended, {{"cat fox"}, {}}).size() == 2);
  const Record old{{"the cat and the dog"}, {}};
  CHECK(VectorOf(extended, old) == VectorOf(known, old));
  CHECK(Extended(extended, R"({"text": "dog fox", "labels": ["a"]})").ToBytes() ==
        extended.ToBytes());
}

TEST_CASE("a sample has the labels already whose names have the features of its words") {
  TextConfig config = Hashed(20);
  config.stem = "english";
  config.chars = 3;
  for (const uint32_t bits : {0u, 20u}) {
    CAPTURE(bits);
    config.hash_bits = bits;
    const Preprocessor preprocessor =
        Fitted(R"({"text": "boats houses", "labels": ["boat", "Boats", "trees"]})", config);
    Preprocessor::Encoder encoder(preprocessor);
    const SampleView sample = encoder.Encode({{"boat"}, {}});
    std::vector<std::string> names;
    for (const uint32_t label : preprocessor.OwnLabels(sample.features)) {
      names.push_back(preprocessor.LabelName(label));
    }
    CHECK(names == std::vector<std::string>{"Boats", "boat"});
  }
}

TEST_CASE("what does not go with hashes is refused") {
  const DataFile file(kThreeTexts);
  TextConfig config = Hashed(20);
  config.max_features = 1000;
  CHECK(MessageOf(Preprocessor::Fit(file.path(), config, 1)) ==
        "text.max_features = 1000: text.hash_bits = 20 makes 1048576 features; leave one of the "
        "two keys out");
  config = Hashed(20);
  config.min_samples = 4;
  CHECK(MessageOf(Preprocessor::Fit(file.path(), config, 1))
            .find(": no word occurs in 4 samples or more") != std::string::npos);
}

}  // namespace
}  // namespace dslide
