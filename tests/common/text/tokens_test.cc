#include "common/text/tokens.h"

#include <doctest/doctest.h>

#include "common/text/samples.h"
#include "tests/support/data_file.h"
#include "tests/support/results.h"

namespace dslide::tokens_test {
namespace {

TextConfig Words() {
  TextConfig config;
  config.format = TextFormat::kWords;
  config.min_count = 1;
  return config;
}

TextConfig Sessions() {
  TextConfig config;
  config.format = TextFormat::kSessions;
  return config;
}

std::vector<std::string> TokensOf(const TextConfig& config, std::string_view line) {
  TokenBreaker breaker(config);
  std::vector<std::string> tokens;
  const Status read =
      breaker.ForEachToken(line, [&](std::string_view token) { tokens.emplace_back(token); });
  REQUIRE(read.ok());
  return tokens;
}

TEST_CASE("tokens: words are lower-case runs of letters, items what blanks separate") {
  CHECK(TokensOf(Words(), "The cat's Häuser, 3 of them.") ==
        std::vector<std::string>{"the", "cat", "s", "häuser", "3", "of", "them"});
  CHECK(TokensOf(Sessions(), " SKU-1  a,b\tÄ \r") == std::vector<std::string>{"SKU-1", "a,b", "Ä"});
  TextConfig stems = Words();
  stems.stem = "english";
  CHECK(TokensOf(stems, "running boats") == std::vector<std::string>{"run", "boat"});
  TokenBreaker breaker(Sessions());
  const Status read = breaker.ForEachToken("\xff", [](std::string_view) {});
  CHECK(read.error().message == "'\\xff' is not UTF-8; convert the file, for instance by iconv");
}

TEST_CASE("tokens: the most frequent first, equal ones by name, rare ones left out") {
  const DataFile file("b a c\nc c b\n\nd\n");
  for (const size_t threads : {1u, 3u}) {
    CHECK(*CountTokens(file.path(), Words(), threads) ==
          std::vector<std::string>{"c", "b", "a", "d"});
  }
  TextConfig config = Words();
  config.min_count = 2;
  CHECK(*CountTokens(file.path(), config, 1) == std::vector<std::string>{"c", "b"});
  config.min_count = 9;
  CHECK(CountTokens(file.path(), config, 1).error().message ==
        file.path() + ": no word occurs 9 times or more (text.min_count)");
  config.min_count = 0;  // 5
  CHECK_FALSE(CountTokens(file.path(), config, 1).ok());
  config = Sessions();
  CHECK(CountTokens(file.path(), config, 1)->size() == 4);
  config.max_features = 1;
  CHECK(*CountTokens(file.path(), config, 1) == std::vector<std::string>{"c"});
  const DataFile none("... --\n");
  CHECK(CountTokens(none.path(), Words(), 1).error().message == none.path() + ": has no word");
  const DataFile bad("a\nb \xc3\n");
  const std::string message = CountTokens(bad.path(), Words(), 2).error().message;
  CHECK(message.starts_with(bad.path() + ":2: 'b \\xc3' is not UTF-8"));
}

TEST_CASE("tokens: a line of many megabytes is cut at blanks") {
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += "word" + std::to_string(i % 7) + " ";
  const DataFile file(text + "\nnext\n");
  const std::vector<std::string> names = *CountTokens(file.path(), Words(), 2);
  CHECK(names.size() == 8);
  const ReadTokens read = Ok(NumberTokens(
      file.path(), Words(),
      [&](std::string_view token) {
        return static_cast<uint32_t>(std::ranges::find(names, token) - names.begin());
      },
      2));
  // 3 MB in parts of at most 1 MiB, and the next line.
  CHECK(std::ranges::count(read.ids, TokenSamples::kLineEnd) == 4);
  CHECK(read.ids.size() == 500'001 + 4);
}

TEST_CASE("tokens: a line of many megabytes without blanks is cut between characters") {
  std::string text = "a";  // so that a character of three bytes lies across each megabyte
  while (text.size() < size_t{3} << 20) text += "\xe5\xad\x97";
  const DataFile file(text + "\n");
  CHECK(CountTokens(file.path(), Words(), 2).ok());
}

TEST_CASE("tokens: a training file, its model and another file for it") {
  const DataFile file("a b c a\nb a\nrare\n");
  TextConfig config = Words();
  config.min_count = 2;
  config.window = 1;
  config.subsample = 0;
  const TrainingSamples loaded = Ok(LoadTrainingSamples(file.path(), {config, 1, nullptr}));
  CHECK(loaded.data.size() == 5);
  CHECK(loaded.data.num_features() == 2);
  CHECK(loaded.data.num_labels() == 2);
  REQUIRE(loaded.notes.size() == 1);
  CHECK(loaded.notes[0] == file.path() +
                               ": 2 of 7 words left out, which are rare (text.min_count, "
                               "text.max_features)");

  const Preprocessor read = Ok(Preprocessor::FromBytes(loaded.preprocessor->ToBytes(), "p"));
  CHECK(read.config() == config);
  CHECK(read.label_names() == std::vector<std::string>{"a", "b"});
  CHECK(read.ToBytes() == loaded.preprocessor->ToBytes());
  CHECK(read.TokenId("b") == 1);
  CHECK(read.TokenId("rare") == std::nullopt);

  const DataFile test("A unknown B\n\nb\n");
  const ModelInput model{&read, {2, 2}};
  const LoadedSamples stored = Ok(LoadSamples(test.path(), model));
  REQUIRE(stored.data.size() == 3);
  CHECK(stored.data[0].labels[0] == 1);
  CHECK(stored.data[2].labels.empty());

  // Whole lines to predict, all samples to evaluate.
  for (const auto& [lines, samples] :
       {std::pair{SampleReader::Lines::kWhole, 3}, std::pair{SampleReader::Lines::kExpanded, 3}}) {
    SampleReader reader = Ok(SampleReader::Open(test.path(), model, false, lines));
    int count = 0;
    for (auto sample = *reader.Next(); sample; sample = *reader.Next()) ++count;
    CHECK(count == samples);
  }
  Result<SampleReader> reader = SampleReader::Open(test.path(), model);
  CHECK((*reader->Next())->values[0] == 0.5f);
}

TEST_CASE("tokens: keys that do not go together") {
  const DataFile file("a b\n");
  TextConfig config = Sessions();
  CHECK(
      LoadTrainingSamples(file.path(), {config, 2, nullptr}).error().message ==
      "train.min_label_samples = 2: of words and sessions text.min_count is what leaves rare ones "
      "out");
  config.hash_bits = 12;
  CHECK(LoadTrainingSamples(file.path(), {config, 1, nullptr}).error().message ==
        "text.hash_bits: words and sessions have a vocabulary; leave it out");
}

}  // namespace
}  // namespace dslide::tokens_test
