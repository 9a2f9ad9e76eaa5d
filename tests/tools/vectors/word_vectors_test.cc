// Word vectors of a model with dense layers: input rows are as wide as the first layer.
#include "tools/dslide/vectors/word_vectors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"
#include "tests/tools/serve/word_model.h"
#include "tools/dslide/export/exports.h"

namespace dslide::word_vectors_test {
namespace {

// Of the words of WordModel(): word i has 1 in element i and 0.5 in the next one; 4 units, then 2.
std::shared_ptr<const Model> DeepWordModel(bool forgotten = false) {
  const auto words = WordModel(forgotten);
  ModelInfo info = words->info();
  info.config.model.dense = {2};
  ModelBuilder builder(info, words->shared_preprocessor(), BestKernels());
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<float> row(4);
    row[i] = 1;
    row[(i + 1) % 4] = 0.5f;
    builder.SetInput(i, row.data());
    builder.SetNeuron(i, row.data(), 0);
  }
  return std::move(builder).Finish({});
}

TEST_CASE("word vectors of a model with dense layers are the rows of its input") {
  const auto vectors = Ok(WordVectors::Of(DeepWordModel()));
  CHECK(vectors.dim() == 4);
  const float length = std::sqrt(1.25f);
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t d = 0; d < 4; ++d) {
      const float expected = d == i ? 1.0f : d == (i + 1) % 4 ? 0.5f : 0.0f;
      CHECK(vectors.Unit(i)[d] == doctest::Approx(expected / length));
    }
    CHECK(vectors.Cosine(i, (i + 1) % 4) == doctest::Approx(0.4));
    CHECK(vectors.Cosine(i, (i + 2) % 4) == doctest::Approx(0));
  }
}

TEST_CASE("word2vec's file of a model with dense layers has the rows of its input") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/vectors.txt";
  REQUIRE(WriteWord2Vec(*DeepWordModel(), false, path).ok());
  CHECK(*ReadWholeFile(path) ==
        "4 4\none 1 0.5 0 0\ntwo 0 1 0.5 0\nthree 0 0 1 0.5\nvier 0.5 0 0 1\n");
}

TEST_CASE("a word that a stream has forgotten is nobody's neighbour, and in no file") {
  const auto model = DeepWordModel(true);
  const auto vectors = Ok(WordVectors::Of(model));
  CHECK_FALSE(vectors.Find(""));
  const auto one = vectors.Unit(0);
  const std::vector<float> query(one.begin(), one.end());
  const std::vector<uint32_t> itself(1, 0);
  const auto nearest = vectors.Nearest({&query, 1}, 4, {&itself, 1});
  REQUIRE(nearest[0].size() == 2);
  CHECK(nearest[0][0].id == 3);
  CHECK(nearest[0][1].id == 2);
  const TempDirectory directory;
  const std::string path = directory.path() + "/vectors";
  REQUIRE(WriteWord2Vec(*model, false, path + ".txt").ok());
  CHECK(*ReadWholeFile(path + ".txt") == "3 4\none 1 0.5 0 0\nthree 0 0 1 0.5\nvier 0.5 0 0 1\n");
  REQUIRE(WriteWord2Vec(*model, true, path + ".bin").ok());
  const std::string binary = *ReadWholeFile(path + ".bin");
  CHECK(binary.starts_with("3 4\none "));
  CHECK(binary.size() == std::string("3 4\n").size() + 3 * (4 * sizeof(float) + 2) + 12);
}

}  // namespace
}  // namespace dslide::word_vectors_test
