// The file of a preprocessor, and a record encoded by what it holds.
#include "common/text/preprocessor.h"

#include <algorithm>

#include "tests/fuzz/fuzz_target.h"

namespace dslide::preprocessor_fuzz {
namespace {

using fuzz::Inputs;

bool Run(std::string_view input) {
  const Result<Preprocessor> read = Preprocessor::FromBytes(std::string(input), "preprocessor");
  if (!fuzz::Accepted(read)) return false;
  Preprocessor::Encoder encoder(*read);
  const SampleView sample =
      encoder.Encode({{"Häuser one", "a red boat, running vier"}, {"Haus", "unknown"}});
  DSLIDE_CHECK(std::ranges::is_sorted(sample.features));
  DSLIDE_CHECK(sample.features.empty() || sample.features.back() < read->num_features());
  for (const uint32_t label : sample.labels) (void)read->LabelName(label);
  (void)read->OwnLabels(sample.features);
  for (uint32_t id = 0; id < read->num_labels(); ++id) (void)read->LabelId(read->LabelName(id));
  const std::string bytes = read->ToBytes();
  const Result<Preprocessor> again = Preprocessor::FromBytes(bytes, "again");
  DSLIDE_CHECK(again.ok() && again->ToBytes() == bytes);
  return true;
}

std::string Fitted(const TextConfig& config) {
  const std::string path = fuzz::InputFile(
      "{\"title\": \"red House\", \"text\": \"Die roten H\xc3\xa4user, running men\", \"labels\": "
      "[\"Haus\", \"boat\"]}\n{\"text\": \"running boats, one vier\", \"labels\": [\"Boot\"]}\n");
  const Result<Preprocessor> fitted = Preprocessor::Fit(path, config, 1);
  DSLIDE_CHECK(fitted.ok());
  return fitted->ToBytes();
}

Inputs Seeds() {
  TextConfig words;
  words.min_samples = 1;
  words.max_share = 1;
  TextConfig stems = words;
  stems.stem = "german";
  stems.chars = 3;
  TextConfig hashed = words;
  hashed.hash_bits = 10;
  return {Fitted(words), Fitted(stems), Fitted(hashed)};
}

const fuzz::Entered kEntered({"preprocessor", Run, Seeds});

}  // namespace
}  // namespace dslide::preprocessor_fuzz
