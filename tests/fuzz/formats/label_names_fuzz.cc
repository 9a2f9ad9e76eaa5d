// Files of label names, as they are given and as they are kept beside checkpoints.
#include "common/checkpoint/stored_label_names.h"
#include "common/data/xc_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::label_names_fuzz {
namespace {

using fuzz::Inputs;

constexpr uint32_t kLabels = 20;

bool Run(std::string_view input) {
  const std::string path = fuzz::InputFile(input);
  const Result<std::vector<std::string>> lines = ReadLabelNames(path, kLabels);
  if (fuzz::Accepted(lines)) DSLIDE_CHECK(lines->size() == kLabels);
  const Result<std::vector<std::string>> names = LoadLabelNames(path, kLabels);
  if (!fuzz::Accepted(names)) return false;
  DSLIDE_CHECK(names->size() == kLabels);
  const Result<std::string> copy = StoreLabelNames(fuzz::InputDirectory(), *names);
  DSLIDE_CHECK(copy.ok());
  const Result<std::vector<std::string>> again = LoadLabelNames(*copy, kLabels);
  DSLIDE_CHECK(again.ok() && *again == *names);
  return true;
}

Inputs Seeds() {
  return {"0\tkey\t7\tName\n3\tkey3\n\n19\tk\t1\tGröße\n",
          "0\ta\n0\tb\n",
          "20\tx\n",
          "1\t\xff\n",
          "5\ta b\t\t\n6\tq\t2\tline\x01"
          "end\n",
          "x\ty\n"};
}

const fuzz::Entered kEntered({"label_names", Run, Seeds});

}  // namespace
}  // namespace dslide::label_names_fuzz
