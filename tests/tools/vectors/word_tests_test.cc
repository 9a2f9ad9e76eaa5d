#include "tools/dslide/vectors/word_tests.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"
#include "tests/tools/serve/word_model.h"

namespace dslide::word_tests_test {
namespace {

// The words of WordModel() with vectors of one or two elements; "vier" has one that is no number.
WordVectors Vectors() {
  const auto words = WordModel();
  ModelBuilder builder(words->info(), words->shared_preprocessor(), BestKernels());
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<float> row(4);
    row[0] = 1;
    row[1] = static_cast<float>(i);
    if (i == 3) row[2] = std::nanf("");
    builder.SetInput(i, row.data());
    row[2] = 0;
    builder.SetNeuron(i, row.data(), 0);
  }
  return *WordVectors::Of(std::move(builder).Finish({}));
}

class Pairs {
 public:
  Result<SimilarityResult> Compare(const std::string& lines) {
    const std::string path = directory_.path() + "/pairs.tsv";
    std::ofstream(path) << lines;
    return ComparePairs(vectors_, path);
  }

 private:
  TempDirectory directory_;
  const WordVectors vectors_ = Vectors();
};

TEST_CASE("word tests: pairs are ranked by their cosines as by their judgements") {
  Pairs pairs;
  const auto result =
      Ok(pairs.Compare("# judged\none two 2\ntwo three 3\none three 1\none five 9\n"));
  CHECK(result.pairs == 3);
  CHECK(result.left_out == 1);
  CHECK(result.spearman == doctest::Approx(1));
}

TEST_CASE("word tests: a judgement that is no finite number is a bad line") {
  Pairs pairs;
  for (const char* number : {"nan", "-nan", "inf", "-inf", "x", "1x"}) {
    CAPTURE(number);
    const std::string message =
        MessageOf(pairs.Compare("one two 2\ntwo three " + std::string(number) + "\n"));
    CHECK(message.ends_with("expected two words and a number"));
    CHECK(message.find("pairs.tsv:2") != std::string::npos);
  }
}

TEST_CASE("word tests: a pair of a word whose vector is no number is left out") {
  Pairs pairs;
  const auto result = Ok(pairs.Compare("one two 2\ntwo three 3\none vier 1\nvier vier 5\n"));
  CHECK(result.pairs == 2);
  CHECK(result.left_out == 2);
  CHECK(result.spearman == doctest::Approx(1));
}

}  // namespace
}  // namespace dslide::word_tests_test
