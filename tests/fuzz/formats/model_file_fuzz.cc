// A model file: opened, checked, and asked. The checksums of the description and of the sections
// are made right first, so that what lies behind them is reached.
#include "common/model/model_file.h"

#include <cstring>

#include "common/checkpoint/file_checksum.h"
#include "common/model/ranker.h"
#include "model_generated.h"
#include "tests/common/model/small_model.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/tools/serve/word_model.h"

namespace dslide::model_file_fuzz {
namespace {

using fuzz::Inputs;

constexpr size_t kTailBytes = 32;  // length, checksum, "dslide end\n"
constexpr uint64_t kMostPositions = 1 << 16;

uint64_t Checksum(std::string_view bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

uint64_t NumberAt(const std::string& file, size_t at) {
  uint64_t number = 0;
  std::memcpy(&number, file.data() + at, sizeof(number));
  return number;
}

// Those of the sections lie in the description.
void MendSections(std::string* file, size_t begin, size_t length) {
  auto* data = reinterpret_cast<uint8_t*>(file->data() + begin);
  flatbuffers::Verifier verifier(data, length);
  if (length < 8 || begin % 8 != 0 || !wire::VerifyModelFileBuffer(verifier)) return;
  const auto* sections = wire::GetModelFile(data)->sections();
  if (sections == nullptr) return;
  for (const wire::ModelSection* section : *sections) {
    if (section->offset() > file->size() || section->bytes() > file->size() - section->offset()) {
      continue;
    }
    const uint64_t sum =
        Checksum(std::string_view(*file).substr(section->offset(), section->bytes()));
    auto* table = reinterpret_cast<flatbuffers::Table*>(const_cast<wire::ModelSection*>(section));
    (void)table->SetField<uint64_t>(wire::ModelSection::VT_CHECKSUM, sum, 0);
  }
}

void MendChecksums(std::string* file) {
  if (file->size() < kTailBytes) return;
  const size_t tail = file->size() - kTailBytes;
  const uint64_t length = NumberAt(*file, tail);
  if (length > tail) return;
  MendSections(file, tail - length, length);
  const uint64_t sum = Checksum(std::string_view(*file).substr(tail - length, length));
  std::memcpy(file->data() + tail + sizeof(length), &sum, sizeof(sum));
}

// As `dslide serve` does: whatever the arrays hold, scores may be wrong, and nothing else. Returns
// false if damage was found.
bool Ask(const std::shared_ptr<const Model>& model) {
  const ModelInfo& info = model->info();
  if (model->positions() > kMostPositions) return true;
  SparseRows rows;
  if (info.features() > 0) {
    rows.ids = {0};
    rows.values = {1};
  }
  rows.EndRow();
  Ranker ranker(model, BestKernels());
  const Result<Matrix> hidden = ranker.Embed(rows);
  if (!fuzz::Accepted(hidden)) return false;
  for (const ModelSearch search : {ModelSearch::kExact, ModelSearch::kScan, ModelSearch::kIndex}) {
    const auto ranked = ranker.Rank(*hidden, {.search = search, .probabilities = true});
    if (!fuzz::Accepted(ranked)) return false;
    for (const uint32_t label : ranked->best.ids) DSLIDE_CHECK(label < info.labels());
  }
  (void)model->LabelId(model->LabelName(info.labels() - 1));
  (void)model->OwnLabels(rows.ids);
  return true;
}

bool Open(std::string_view file, ModelMemory memory) {
  const std::string path = fuzz::InputFile(file);
  (void)IsModelFile(path);
  (void)fuzz::Accepted(VerifyModelFile(path));
  const Result<std::shared_ptr<const Model>> model = OpenModelFile(path, memory);
  if (!fuzz::Accepted(model)) return false;
  return Ask(*model);
}

bool Run(std::string_view input) {
  (void)Open(input, ModelMemory::kMapped);
  std::string mended(input);
  MendChecksums(&mended);
  return Open(mended, ModelMemory::kCopied);
}

std::string FileOf(const Model& model) {
  const std::string path = fuzz::InputDirectory() + "/seed.dslide";
  DSLIDE_CHECK(WriteModelFile(model, path).ok());
  return fuzz::FileBytes(path);
}

Inputs Seeds() {
  SmallModel named(3, 4, 5, 1);
  named.names = {"a", "b", "c", "d", "e"};
  return {FileOf(*WordModel()), FileOf(*named.Build()->WithProbes(1, 0.9f)),
          FileOf(*SmallModel(2, 3, 20, 2).Build({.int8_only = true})->WithNotes("notes"))};
}

const fuzz::Entered kEntered({"model_file", Run, Seeds});

}  // namespace
}  // namespace dslide::model_file_fuzz
