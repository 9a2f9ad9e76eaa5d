#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "common/data/output_file.h"
#include "common/math/kernels.h"
#include "tools/dslide/export/exports.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "floats have their least byte first");

// Blanks end a name in these files.
std::string NameOf(const std::string& name) {
  std::string written = name;
  for (char& c : written) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  }
  return written;
}

}  // namespace

Status WriteWord2Vec(const Model& model, bool binary, const std::string& path) {
  const Preprocessor* preprocessor = model.preprocessor();
  if (preprocessor == nullptr || preprocessor->vectorizer().is_hashed()) {
    return BadInput(
        fmt::format("--to {}: the model's features have no names (expected one of text "
                    "with a vocabulary)",
                    path));
  }
  DSLIDE_RETURN_IF_ERROR(model.Check(model.arrays().input));
  Result<OutputFile> file = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(file);
  const std::vector<std::string>& names = preprocessor->vectorizer().vocabulary().names;
  const uint32_t dim = model.info().input_width();
  const auto forgotten = std::ranges::count(names, "");  // by a stream: ids that no word has
  file->Write(fmt::format("{} {}\n", std::ssize(names) - forgotten, dim));
  std::vector<float> row(dim);
  std::string text;
  for (size_t id = 0; id < names.size(); ++id) {
    if (names[id].empty()) continue;
    BestKernels().from_bf16(dim, model.arrays().input.data() + id * dim, row.data());
    text = NameOf(names[id]);
    if (binary) {
      text += ' ';
      text.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    } else {
      for (const float x : row) fmt::format_to(std::back_inserter(text), " {}", x);
    }
    text += '\n';
    file->Write(text);
  }
  return file->Finish();
}

}  // namespace dslide
