#include "tools/dslide/model/measured_index.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"
#include "tests/tools/serve/word_model.h"

namespace dslide::measured_index_test {
namespace {

// WordModel() as that of a run with these data.
std::shared_ptr<const Model> Of(const TrainConfig& train) {
  const auto words = WordModel();
  ModelInfo info = words->info();
  info.config.train.open_vocabulary = train.open_vocabulary;
  info.config.train.data = train.data;
  info.config.train.test = train.test;
  return std::make_shared<const Model>(info, words->arrays(), words->shared_preprocessor(), words);
}

// What is said of the index.
std::string Line(const TrainConfig& train, ModelSourceOptions options = {}) {
  std::string lines;
  options.say = [&](const std::string& line) { lines += line; };
  const auto model = WithIndex(Of(train), options);
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message));
  return lines;
}

TrainConfig Stream(const std::string& data) {
  TrainConfig train;
  train.open_vocabulary = true;
  train.data = data;
  return train;
}

TEST_CASE("index: where the data was standard input, the line says so") {
  ModelSourceOptions exported;
  exported.has_data = true;
  for (const bool open_vocabulary : {false, true}) {
    TrainConfig train = Stream("-");
    train.open_vocabulary = open_vocabulary;
    CHECK(Line(train) == "index: none, the run's data was standard input");
    CHECK(Line(train, exported) ==
          "index: none, the run's data was standard input; --data names samples to measure it on");
  }
}

TEST_CASE("index: lines of a stream's file that are no records are left out") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/data.jsonl";
  const std::string record = R"({"text": "one two", "labels": ["eins"]})";
  REQUIRE(WriteWholeFile(path, record + "\n{\"text\": 1\n\n" + record + "\n{\"te").ok());
  CHECK(Line(Stream(path)) == "index: none, a search reads all rows in 8 bits (" + path + ")");
  // Any other file is as it should be.
  TrainConfig fixed = Stream(path);
  fixed.open_vocabulary = false;
  CHECK(Line(fixed).starts_with("index: none, " + path + ":2: "));
  TrainConfig tested = Stream("-");
  tested.test = path;
  CHECK(Line(tested) == "index: none, the run's data was standard input");
  REQUIRE(WriteWholeFile(path, "{\"text\": 1\n").ok());
  CHECK(Line(Stream(path)) == "index: none, " + path + ": no samples");
}

TEST_CASE("index: samples that the user names must be of use") {
  const TempDirectory directory;
  ModelSourceOptions options;
  options.data = directory.path() + "/none";
  CHECK(MessageOf(WithIndex(Of(Stream("-")), options)).starts_with(options.data));
}

}  // namespace
}  // namespace dslide::measured_index_test
