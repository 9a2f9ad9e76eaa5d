#include "tools/dslide/model/prediction_file.h"

#include <doctest/doctest.h>

#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::prediction_file_test {
namespace {

// Two samples: labels 7 and 3, and none.
RankedLabels Predictions() {
  RankedLabels ranking;
  ranking.best.offsets = {0, 2, 2};
  ranking.best.ids = {7, 3};
  ranking.best.scores = {0.5f, 0.25f};
  ranking.probabilities = {0.625f, 0.375f};
  return ranking;
}

// The file of their first `top_k` labels.
std::string Written(const PredictionFormat& format, uint32_t top_k,
                    const std::vector<std::string>& ids = {}) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  auto file = Ok(PredictionFile::Create(path, format));
  file.Write(Predictions(), top_k, ids);
  REQUIRE(file.Finish().ok());
  return *ReadWholeFile(path);
}

TEST_CASE("prediction file: JSON has the samples' ids") {
  const std::vector<std::string> ids = {"\"x:7\"", ""};
  CHECK(Written({}, 1, ids) == "7:0.5000\n\n");
  CHECK(Written({.json = true}, 1, ids) ==
        "{\"id\":\"x:7\",\"labels\":[7],\"scores\":[0.5]}\n{\"labels\":[],\"scores\":[]}\n");
}

TEST_CASE("prediction file: labels by name") {
  const std::vector<std::string> names = {"", "", "", "a \"quote\"", "", "", "", "two words"};
  CHECK(Written({.names = &names}, 2) == "two words:0.5000\ta \"quote\":0.2500\n\n");
  CHECK(Written({.json = true, .names = &names}, 2) ==
        "{\"labels\":[\"two words\",\"a \\\"quote\\\"\"],\"scores\":[0.5,0.25]}\n"
        "{\"labels\":[],\"scores\":[]}\n");
}

TEST_CASE(
    "prediction file: probabilities are in place of scores in text, and beside them in JSON") {
  const auto written = [](bool json, float threshold) {
    return Written({.json = json, .probabilities = true, .threshold = threshold}, 2);
  };
  CHECK(written(false, 0) == "7:0.625 3:0.375\n\n");
  CHECK(written(false, 0.375f) == "7:0.625 3:0.375\n\n");  // no lower than the threshold
  CHECK(written(false, 0.5f) == "7:0.625\n\n");
  CHECK(written(false, 1) == "\n\n");
  const std::string none = "{\"labels\":[],\"scores\":[],\"probabilities\":[]}\n";
  CHECK(written(true, 0) ==
        "{\"labels\":[7,3],\"scores\":[0.5,0.25],\"probabilities\":[0.625,0.375]}\n" + none);
  CHECK(written(true, 0.5f) ==
        "{\"labels\":[7],\"scores\":[0.5],\"probabilities\":[0.625]}\n" + none);
  CHECK(written(true, 1) == none + none);
}

}  // namespace
}  // namespace dslide::prediction_file_test
