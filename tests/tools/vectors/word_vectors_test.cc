// Word vectors of a model with dense layers: input rows are as wide as the first layer.
#include "tools/dslide/vectors/word_vectors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "common/data/whole_file.h"
#include "tests/support/temp_directory.h"
#include "tests/tools/serve/word_model.h"
#include "tools/dslide/export/exports.h"

namespace dslide::word_vectors_test {
namespace {

// Of the words of WordModel(): word i has 1 in element i and 0.5 in the next one; 4 units, then 2.
std::shared_ptr<const Model> DeepWordModel() {
  const auto words = WordModel();
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
  const auto vectors = WordVectors::Of(DeepWordModel());
  REQUIRE(vectors.ok());
  CHECK(vectors->dim() == 4);
  const float length = std::sqrt(1.25f);
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t d = 0; d < 4; ++d) {
      const float expected = d == i ? 1.0f : d == (i + 1) % 4 ? 0.5f : 0.0f;
      CHECK(vectors->Unit(i)[d] == doctest::Approx(expected / length));
    }
    CHECK(vectors->Cosine(i, (i + 1) % 4) == doctest::Approx(0.4));
    CHECK(vectors->Cosine(i, (i + 2) % 4) == doctest::Approx(0));
  }
}

TEST_CASE("word2vec's file of a model with dense layers has the rows of its input") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/vectors.txt";
  REQUIRE(WriteWord2Vec(*DeepWordModel(), false, path).ok());
  CHECK(*ReadWholeFile(path) ==
        "4 4\none 1 0.5 0 0\ntwo 0 1 0.5 0\nthree 0 0 1 0.5\nvier 0.5 0 0 1\n");
}

}  // namespace
}  // namespace dslide::word_vectors_test
