#include "common/text/records/unreadable.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "common/text/samples.h"
#include "common/text/tokens.h"
#include "tests/common/text/fitted.h"
#include "tests/support/temp_directory.h"

namespace dslide::unreadable_test {
namespace {

constexpr size_t kLines = 3 * LineBlock::kMostLines;  // of some blocks

// Lines, of which some are replaced.
class Lines {
 public:
  explicit Lines(size_t lines) : lines_(lines) {
    for (size_t i = 0; i < lines; ++i) {
      lines_[i] =
          fmt::format(R"({{"text": "word{} common", "labels": ["label{}"]}})", i % 7, i % 3);
    }
  }
  void Replace(size_t number, std::string line) { lines_[number - 1] = std::move(line); }
  std::string Write() const {
    const std::string path = directory_.path() + "/data.jsonl";
    std::ofstream file(path, std::ios::binary);
    for (const std::string& line : lines_) file << line << "\n";
    return path;
  }

 private:
  TempDirectory directory_;
  std::vector<std::string> lines_;
};

Result<TrainingSamples> Load(const std::string& path, const TextConfig& config) {
  return LoadTrainingSamples(path, {config, 1, nullptr});
}

bool HasNote(const std::vector<std::string>& notes, const std::string& note) {
  return std::ranges::find(notes, note) != notes.end();
}

TEST_CASE("unreadable records: left out of training, counted, and the first is named") {
  Lines file(kLines);
  file.Replace(4000, R"({"text": "half \ud83d", "labels": ["a"]})");
  file.Replace(9000, "nonsense");
  file.Replace(9001, R"({"title": 5, "labels": ["b"]})");
  const std::string path = file.Write();
  const TrainingSamples loaded = Ok(Load(path, EveryTerm()));
  CHECK(loaded.data.size() == kLines - 3);
  CHECK(loaded.data.num_labels() == 3);
  CHECK(HasNote(loaded.notes,
                fmt::format("{}: 3 of {} records cannot be read and were left out; the first is "
                            "{}:4000: '{{\"text\": \"half \\ud83d\", \"labels\": [\"a\"]}}' has "
                            "\\ud83d, which is half a character (cut texts between characters)",
                            path, kLines, path)));

  // LoadSamples(), ReadLabels() and SampleReader leave out the same records.
  const ModelInput model{loaded.preprocessor.get(),
                         {loaded.data.num_features(), loaded.data.num_labels()}};
  const LoadedSamples test = Ok(LoadSamples(path, model));
  CHECK(test.data.size() == kLines - 3);
  CHECK(HasNote(test.notes, loaded.notes.back()));
  const Dataset labels = Ok(ReadLabels(path, model));
  REQUIRE(labels.size() == kLines - 3);
  for (size_t i = 0; i < labels.size(); ++i) {
    REQUIRE(std::ranges::equal(labels[i].labels, test.data[i].labels));
    REQUIRE(labels[i].features.empty());
  }
  SampleReader reader = Ok(SampleReader::Open(path, model, /*skip_blank=*/true));
  size_t samples = 0;
  while (true) {
    const auto sample = Ok(reader.Next());
    if (!sample.has_value()) break;
    ++samples;
  }
  CHECK(samples == kLines - 3);
  CHECK(reader.unreadable().count() == 3);
  CHECK(reader.unreadable().records() == kLines);
}

TEST_CASE("unreadable records: the model does not depend on the number of threads") {
  Lines file(kLines);
  for (size_t i = 0; i < 100; ++i) file.Replace(1 + i * 97, "{\"text\": ");
  const std::string path = file.Write();
  const Preprocessor one = Ok(Preprocessor::Fit(path, EveryTerm(), 1));
  for (const size_t threads : {2, 5}) {
    CHECK(Preprocessor::Fit(path, EveryTerm(), threads)->ToBytes() == one.ToBytes());
  }
}

TEST_CASE("unreadable records: above 1 % of all they are refused, whatever the number of threads") {
  Lines file(kLines);
  const size_t most = kLines / 100;
  for (size_t i = 0; i < most; ++i) file.Replace(5 + 90 * i, "nonsense");
  CHECK(Load(file.Write(), EveryTerm()).ok());
  file.Replace(kLines, "more");
  const std::string path = file.Write();
  const std::string expected = fmt::format(
      "{}:5: 'nonsense' is not JSON ({} of {} records cannot be read, and at most 1 % are left "
      "out)",
      path, most + 1, kLines);
  for (const size_t threads : {1, 2, 5}) {
    CHECK(MessageOf(Preprocessor::Fit(path, EveryTerm(), threads)) == expected);
  }
  const Preprocessor fitted = Ok(Preprocessor::Fit(Lines(kLines).Write(), EveryTerm(), 2));
  const ModelInput model{&fitted, {fitted.num_features(), fitted.num_labels()}};
  CHECK(LoadSamples(path, model).error().message == expected);
  CHECK(ReadLabels(path, model).error().message == expected);
  SampleReader reader = Ok(SampleReader::Open(path, model, /*skip_blank=*/true));
  Result<std::optional<SampleView>> sample = reader.Next();
  while (sample.ok() && sample->has_value()) sample = reader.Next();
  REQUIRE(!sample.ok());
  CHECK(sample.error().message == expected);
}

TEST_CASE("unreadable records: lines of words and sessions") {
  Lines file(kLines);
  file.Replace(7000, "bad \xff");
  const std::string path = file.Write();
  for (const TextFormat format : {TextFormat::kWords, TextFormat::kSessions}) {
    TextConfig config;
    config.format = format;
    config.min_count = 1;
    const TrainingSamples loaded = Ok(Load(path, config));
    CHECK(
        HasNote(loaded.notes,
                fmt::format("{}: 1 of {} records cannot be read and were left out; the first is "
                            "{}:7000: 'bad \\xff' is not UTF-8; convert the file, for instance by "
                            "iconv",
                            path, kLines, path)));
  }
}

}  // namespace
}  // namespace dslide::unreadable_test
