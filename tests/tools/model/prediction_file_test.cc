#include "tools/dslide/model/prediction_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/temp_directory.h"

namespace dslide::prediction_file_test {
namespace {

namespace fs = std::filesystem;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two samples: labels 7 and 3, and none.
RankedLabels Predictions() {
  RankedLabels ranking;
  ranking.best.offsets = {0, 2, 2};
  ranking.best.ids = {7, 3};
  ranking.best.scores = {0.5f, 0.25f};
  ranking.probabilities = {0.625f, 0.375f};
  return ranking;
}

TEST_CASE("prediction file: it has its name once it is complete") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  {
    auto file = PredictionFile::Create(path, {});
    REQUIRE(file.ok());
    file->Write(Predictions(), 1);
    CHECK_FALSE(fs::exists(path));
    REQUIRE(file->Finish().ok());
  }
  CHECK(ContentOf(path) == "7:0.5000\n\n");
  {
    auto dropped = PredictionFile::Create(path, {.json = true});
    REQUIRE(dropped.ok());
  }
  CHECK(ContentOf(path) == "7:0.5000\n\n");
  CHECK_FALSE(fs::exists(path + ".tmp"));
}

TEST_CASE("prediction file: JSON has the samples' ids") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  const std::vector<std::string> ids = {"\"x:7\"", ""};
  for (const bool json : {false, true}) {
    auto file = PredictionFile::Create(path, {.json = json});
    REQUIRE(file.ok());
    file->Write(Predictions(), 1, ids);
    REQUIRE(file->Finish().ok());
    CHECK(ContentOf(path) == (json ? "{\"id\":\"x:7\",\"labels\":[7],\"scores\":[0.5]}\n"
                                     "{\"labels\":[],\"scores\":[]}\n"
                                   : "7:0.5000\n\n"));
  }
}

TEST_CASE("prediction file: labels by name") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  const std::vector<std::string> names = {"", "", "", "a \"quote\"", "", "", "", "two words"};
  for (const bool json : {false, true}) {
    auto file = PredictionFile::Create(path, {.json = json, .names = &names});
    REQUIRE(file.ok());
    file->Write(Predictions(), 2);
    REQUIRE(file->Finish().ok());
    CHECK(ContentOf(path) ==
          (json ? "{\"labels\":[\"two words\",\"a \\\"quote\\\"\"],\"scores\":[0.5,0.25]}\n"
                  "{\"labels\":[],\"scores\":[]}\n"
                : "two words:0.5000\ta \"quote\":0.2500\n\n"));
  }
}

TEST_CASE(
    "prediction file: probabilities are in place of scores in text, and beside them in JSON") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  const auto written = [&](bool json, float threshold) {
    auto file =
        PredictionFile::Create(path, {.json = json, .probabilities = true, .threshold = threshold});
    REQUIRE(file.ok());
    file->Write(Predictions(), 2);
    REQUIRE(file->Finish().ok());
    return ContentOf(path);
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

TEST_CASE("prediction file: a full device is an error that names it, and removes no other file") {
  const TempDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  std::ofstream(".tmp") << "not ours";
  {
    auto file = PredictionFile::Create("/dev/full", {});
    REQUIRE(file.ok());
    for (int i = 0; i < 10'000; ++i) file->Write(Predictions(), 2);  // more than is buffered
    const Status full = file->Finish();
    REQUIRE_FALSE(full.ok());
    CHECK(full.error().message == "/dev/full: cannot write: No space left on device");
  }
  CHECK(ContentOf(".tmp") == "not ours");
  CHECK(fs::exists("/dev/full"));
  fs::current_path(before);
}

}  // namespace
}  // namespace dslide::prediction_file_test
