// Matrices of NumPy and scipy: .npz archives and .npy arrays, as features, labels and weights.
#include <algorithm>
#include <cmath>

#include "common/data/numbers/matrix_reader.h"
#include "common/data/numbers/npy_header.h"
#include "common/data/numbers/npz_writer.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::matrix_fuzz {
namespace {

using fuzz::Inputs;

constexpr uint64_t kMostRows = 1000;  // read; a header may say that there are more

void CheckSample(const SampleView& sample, const XcHeader& header) {
  DSLIDE_CHECK(std::ranges::is_sorted(sample.features) && std::ranges::is_sorted(sample.labels));
  DSLIDE_CHECK(sample.features.empty() || sample.features.back() < header.num_features);
  DSLIDE_CHECK(sample.labels.empty() || sample.labels.back() < header.num_labels);
  DSLIDE_CHECK(sample.features.size() == sample.values.size());
  DSLIDE_CHECK(std::ranges::all_of(sample.values, [](float v) { return std::isfinite(v); }));
  DSLIDE_CHECK(IsSampleWeight(sample.weight));
}

bool Read(const MatrixPaths& paths) {
  Result<MatrixReader> reader = MatrixReader::Open(paths);
  if (!fuzz::Accepted(reader)) return false;
  (void)reader->description();
  for (uint64_t row = 0; row < kMostRows; ++row) {
    const Result<std::optional<SampleView>> sample = reader->Next();
    if (!fuzz::Accepted(sample)) return false;
    if (!*sample) return true;
    CheckSample(**sample, reader->header());
  }
  return true;
}

bool Run(std::string_view input) {
  const std::string path = fuzz::InputFile(input);
  const bool alone = Read({{path}, ""});
  const bool with_labels = Read({{path, path}, path});
  const bool with_weights = Read({{path}, "", path});
  return alone || with_labels || with_weights;
}

std::string SparseFile() {
  const std::string path = fuzz::InputDirectory() + "/seed.npz";
  Result<NpzWriter> writer = NpzWriter::Create(path);
  DSLIDE_CHECK(writer.ok());
  writer->AddRow(std::vector<uint32_t>{0, 3}, std::vector<float>{0.5f, -2});
  writer->AddRow({}, {});
  writer->AddRow(std::vector<uint32_t>{1, 2}, std::vector<float>{1, 7});
  DSLIDE_CHECK(writer->Finish(4).ok());
  return fuzz::FileBytes(path);
}

// An array of NumPy with a header of version 1.0.
std::string Array(const std::string& type, const std::string& shape, size_t bytes) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((header.size() + 10) / 64 * 64 + 63 - 10, ' ');
  header += '\n';
  std::string array = "\x93NUMPY\x01";
  array += '\0';
  array += static_cast<char>(header.size() & 0xff);
  array += static_cast<char>(header.size() >> 8);
  return array + header + std::string(bytes, '\0');
}

Inputs Seeds() {
  return {SparseFile(),
          Array("<f4", "(3, 2)", 24),
          Array("<f8", "(2, 1)", 16),
          Array("<f2", "(5,)", 10),
          Array("|b1", "(2, 2)", 4),
          Array("<f4", "(4294967296, 2)", 8)};
}

const fuzz::Entered kEntered({"matrix", Run, Seeds});

}  // namespace
}  // namespace dslide::matrix_fuzz
