// A data file of any format that is a stream of lines: recognised, read for training and for a
// model, as numbers and as text.
#include "common/text/samples.h"

#include "tests/fuzz/fuzz_target.h"
#include "tests/tools/serve/word_model.h"

namespace dslide::sample_file_fuzz {
namespace {

using fuzz::Inputs;

constexpr ModelSize kModel{100, 20};

void CheckSample(const SampleView& sample) {
  DSLIDE_CHECK(sample.features.size() == sample.values.size());
  DSLIDE_CHECK(IsSampleWeight(sample.weight));
}

// The number of samples; nullopt: an error came.
std::optional<uint64_t> Count(const std::string& path, const ModelInput& model) {
  Result<SampleReader> reader = SampleReader::Open(path, model);
  if (!fuzz::Accepted(reader)) return std::nullopt;
  for (uint64_t samples = 0;; ++samples) {
    const Result<std::optional<SampleView>> sample = reader->Next();
    if (!fuzz::Accepted(sample)) return std::nullopt;
    if (!*sample) return samples;
    CheckSample(**sample);
    if (model.preprocessor == nullptr && !sample->value().features.empty() &&
        reader->header() == nullptr) {
      DSLIDE_CHECK(sample->value().features.back() < model.size.features);
    }
  }
}

TextConfig EveryTerm() {
  TextConfig config;
  config.min_samples = 1;
  config.max_share = 1;
  return config;
}

void ReadAsNumbers(const std::string& path) {
  const std::optional<uint64_t> samples = Count(path, {nullptr, kModel});
  Result<NumberFile> file = NumberFile::Open(path);
  if (!fuzz::Accepted(file)) return;
  const Result<Dataset> data = ReadNumbers(&*file, std::nullopt);
  if (!fuzz::Accepted(data)) return;
  // A reader for a model refuses values that are too large as it reads; ReadNumbers() leaves them
  // to its callers.
  const Status values = CheckValues(path, *data, 1.0f);
  DSLIDE_CHECK(samples.has_value() == fuzz::Accepted(values));
  if (!samples) return;
  DSLIDE_CHECK(*samples == data->size());
  for (size_t i = 0; i < data->size(); ++i) CheckSample((*data)[i]);
}

bool Run(std::string_view input) {
  static const std::shared_ptr<const Model> words = WordModel();
  const std::string path = fuzz::InputFile(input);
  ReadAsNumbers(path);
  (void)Count(path, {words->preprocessor(), {}});
  const Result<Preprocessor> fitted = Preprocessor::Fit(path, EveryTerm(), 1);
  if (!fuzz::Accepted(fitted)) return false;
  const Result<Preprocessor> extended = words->preprocessor()->Extend(path, 1);
  if (fuzz::Accepted(extended)) DSLIDE_CHECK(extended->num_labels() >= 4);
  return true;
}

Inputs Seeds() {
  return {"2 100 20\n1,3 0:0.5 7:-2\n2 5:1\n",
          "1,3 0:0.5 7:-2 99:1e-3\n0 4294967294:1\n",
          "{\"text\": \"one two\", \"labels\": [\"eins\", \"neu\"]}\n\n{\"text\": \"b\", "
          "\"labels\": [\"eins\"], \"weight\": 2}\n",
          "__label__a one two\nthree __label__b __label__a\n",
          "some words\ta\tb\nvier\tb\n",
          "only words\nmore words\n",
          "\n\n",
          "1 0:1\n{\n"};
}

const fuzz::Entered kEntered({"sample_file", Run, Seeds});

}  // namespace
}  // namespace dslide::sample_file_fuzz
