// A line of text with labels, in each of the formats for it, and its way to features.
#include "common/text/records/record.h"

#include <algorithm>
#include <cmath>

#include "common/data/dataset.h"
#include "common/text/preprocessor.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/tools/serve/word_model.h"

namespace dslide::record_fuzz {
namespace {

using fuzz::Inputs;

void CheckRecord(const Record& record) {
  DSLIDE_CHECK(IsSampleWeight(record.weight));
  std::vector<std::string> labels = record.labels;
  std::ranges::sort(labels);
  DSLIDE_CHECK(std::ranges::adjacent_find(labels) == labels.end());
  for (const std::string& label : labels) {
    DSLIDE_CHECK(label.find_first_of("\t\r\n") == std::string::npos);
  }
}

// Every kind of term.
TextConfig AllTerms() {
  TextConfig text;
  text.ngrams = 2;
  text.chars = 4;
  text.fold_accents = true;
  text.stem = "german";
  text.hash_bits = 10;
  return text;
}

void Vectorise(const Record& record) {
  static const Preprocessor hashed(Vectorizer(AllTerms(), std::vector<uint8_t>(1 << 10, 8)),
                                   {"a", "b"});
  static const std::shared_ptr<const Model> words = WordModel();
  for (const Preprocessor* preprocessor : {&hashed, words->preprocessor()}) {
    // An encoder remembers labels that the model lacks in the preprocessor: only known ones here.
    Record known = record;
    known.labels.clear();
    Preprocessor::Encoder encoder(*preprocessor);
    const SampleView sample = encoder.Encode(known);
    DSLIDE_CHECK(std::ranges::is_sorted(sample.features));
    DSLIDE_CHECK(sample.features.empty() || sample.features.back() < preprocessor->num_features());
    DSLIDE_CHECK(std::ranges::all_of(sample.values, [](float v) { return std::isfinite(v); }));
    (void)preprocessor->OwnLabels(sample.features);
  }
}

bool Run(std::string_view input) {
  if (const HeadLines head(input); !head.lines.empty()) (void)FormatOf(head, {});
  RecordRules csv(RecordFormat::kCsv);
  csv.columns = {',', {CsvField::kText, CsvField::kLabels, CsvField::kWeight}};
  if (const Result<Record> record = ParseRecord(csv, input); fuzz::Accepted(record)) {
    CheckRecord(*record);
  }
  bool accepted = false;
  for (const RecordFormat format : {RecordFormat::kJsonLines, RecordFormat::kFastText,
                                    RecordFormat::kTsv, RecordFormat::kPlainText}) {
    const Result<Record> record = ParseRecord(format, input);
    if (!fuzz::Accepted(record)) continue;
    accepted |= format == RecordFormat::kJsonLines;
    CheckRecord(*record);
    Vectorise(*record);
  }
  return accepted;
}

Inputs Seeds() {
  return {R"({"title": "two", "text": "Die roten Häuser", "labels": ["Haus", 7], "id": [1, "x"]})",
          R"({"text": ["title", "one two", "b"], "labels": "x", "weight": 0.25})",
          R"({"text": "a\tb\u0000\ud83d\ude00", "labels": ["a\tb", "a\tb"], "weight": null})",
          R"({"text": "x", "weight": 1e7})",
          R"({"labels": [[]]})",
          "__label__a words __label__b c",
          "text\t<http://a> <http://b>",
          "some text\tlabel\tother",
          "東京の家 vier ﬁne e\xcc\x81",
          R"({"text": )" + std::string(101, '[') + std::string(101, ']') + "}"};
}

const fuzz::Entered kEntered({"record", Run, Seeds});

}  // namespace
}  // namespace dslide::record_fuzz
