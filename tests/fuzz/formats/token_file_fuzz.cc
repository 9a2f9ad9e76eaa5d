// A file of words, of sessions: read for training on one thread and on several, its samples, and
// the same lines read for a model of another file.
#include "common/text/samples.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/text/tokens.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::token_file_fuzz {
namespace {

using fuzz::Inputs;

constexpr uint32_t kMostSamples = 2000;  // looked at of one input

TextConfig Tokens(TextFormat format) {
  TextConfig text;
  text.format = format;
  text.min_count = 1;
  text.subsample = 0;
  if (format == TextFormat::kWords) text.stem = "english";
  text.window = 3;
  text.decay = 0.5f;
  return text;
}

void CheckSample(const SampleView& sample, uint32_t vocabulary) {
  DSLIDE_CHECK(!sample.features.empty());
  DSLIDE_CHECK(sample.features.size() == sample.values.size());
  DSLIDE_CHECK(std::ranges::is_sorted(sample.features));
  DSLIDE_CHECK(sample.features.back() < vocabulary);
  DSLIDE_CHECK(std::ranges::all_of(sample.labels, [&](uint32_t l) { return l < vocabulary; }));
  DSLIDE_CHECK(IsSampleWeight(sample.weight));
}

void CheckTraining(const TokenSamples& samples, const Preprocessor& preprocessor) {
  DSLIDE_CHECK(preprocessor.num_features() == preprocessor.num_labels());
  const uint32_t vocabulary = preprocessor.num_features();
  uint64_t tokens = 0;
  for (const uint64_t count : samples.counts()) tokens += count;
  DSLIDE_CHECK(std::ranges::count(samples.tokens(), TokenSamples::kLineEnd) +
                   static_cast<int64_t>(tokens) ==
               static_cast<int64_t>(samples.tokens().size()));
  const TokenSamples::Draws draws(1, 2);
  TokenSamples::Scratch scratch;
  const std::vector<uint32_t> order = samples.Order(draws);
  DSLIDE_CHECK(order.size() == samples.size());
  for (const uint32_t position :
       std::span(order).first(std::min<size_t>(order.size(), kMostSamples))) {
    CheckSample(samples.Sample(position, draws, &scratch), vocabulary);
    if (!TokenSamples::IsSample(samples.rules(), samples.tokens(), position)) continue;
    CheckSample(TokenSamples::WholeSample(samples.rules(), samples.tokens(), position, &scratch),
                vocabulary);
  }
}

// Lines to predict and samples to evaluate, for a model of `preprocessor`.
void ReadForModel(const std::string& path, const Preprocessor& preprocessor) {
  for (const SampleReader::Lines lines :
       {SampleReader::Lines::kWhole, SampleReader::Lines::kExpanded}) {
    Result<SampleReader> reader = SampleReader::Open(path, {&preprocessor, {}}, true, lines);
    if (!fuzz::Accepted(reader)) continue;
    for (uint32_t i = 0; i < kMostSamples; ++i) {
      const Result<std::optional<SampleView>> sample = reader->Next();
      if (!fuzz::Accepted(sample) || !*sample) break;
      DSLIDE_CHECK((*sample)->features.empty() ||
                   (*sample)->features.back() < preprocessor.num_features());
    }
  }
}

Preprocessor Other(TextFormat format) {
  Result<Preprocessor> fitted = Preprocessor::Fit(
      fuzz::InputFile("one two red boats two one\nItem7 Item8 one Item7\n", "other"),
      Tokens(format), 1);
  DSLIDE_CHECK(fitted.ok());
  return *std::move(fitted);
}

bool RunAs(TextFormat format, const std::string& path) {
  static const Preprocessor others[] = {Other(TextFormat::kWords), Other(TextFormat::kSessions)};
  ReadForModel(path, others[format == TextFormat::kSessions]);
  const TextConfig config = Tokens(format);
  const Result<std::vector<std::string>> names = CountTokens(path, config, 1);
  const Result<std::vector<std::string>> on_two = CountTokens(path, config, 2);
  DSLIDE_CHECK(names.ok() == on_two.ok());
  if (!fuzz::Accepted(names)) return false;
  DSLIDE_CHECK(*names == *on_two);
  const Result<TrainingSamples> samples = LoadTrainingSamples(path, {config, 1, nullptr});
  if (!fuzz::Accepted(samples)) return false;
  DSLIDE_CHECK(samples->preprocessor->num_labels() == names->size());
  const TokenSamples* tokens = samples->data.drawn();
  DSLIDE_CHECK(tokens != nullptr);
  CheckTraining(*tokens, *samples->preprocessor);
  ReadForModel(path, *samples->preprocessor);
  return true;
}

bool Run(std::string_view input) {
  static const bool quiet = (StartLog("fuzz", "", "error"), true);  // not a line for each file
  (void)quiet;
  const std::string path = fuzz::InputFile(input);
  const bool words = RunAs(TextFormat::kWords, path);
  return RunAs(TextFormat::kSessions, path) || words;
}

Inputs Seeds() {
  return {"one two three two one\n\nred boats\n",
          "Item7 Item8 Item7\r\nItem8\n",
          "\xef\xbb\xbf"
          "東京の家 vier ﬁne e\xcc\x81\tÉ\n",
          "one",
          "a\x7f"
          "b \xff c\n",
          std::string(300, 'x') + " " + std::string(300, 'x'),
          "{\"text\": \"one two\"}\n",
          ""};
}

const fuzz::Entered kEntered({"token_file", Run, Seeds});

}  // namespace
}  // namespace dslide::token_file_fuzz
