#include "tools/dslide/data/data_paths.h"

#include <fmt/format.h>

#include <filesystem>

#include "common/data/numbers/number_file.h"
#include "tools/dslide/model/output_file.h"

namespace dslide {

std::vector<std::string> FilesOf(const std::string& path) {
  const auto matrices = MatrixPathsOf(path);
  if (!matrices) return {path};
  std::vector<std::string> files = matrices->features;
  if (!matrices->labels.empty()) files.push_back(matrices->labels);
  if (!matrices->weights.empty()) files.push_back(matrices->weights);
  return files;
}

Status CheckOutputs(const std::string& input, const std::vector<OutputOption>& outputs) {
  std::vector<std::string> before;
  for (const OutputOption& output : outputs) {
    for (const std::string& file : FilesOf(output.path)) {
      for (const std::string& in : FilesOf(input)) {
        if (AreOneFile(file, in)) {
          return BadInput(
              fmt::format("--{} {}: is the input; name another file", output.name, file));
        }
      }
      for (const std::string& other : before) {
        if (AreOneFile(file, other)) {
          return BadInput(
              fmt::format("--{} {}: would be written twice; name another file", output.name, file));
        }
      }
      std::error_code ignored;
      if (std::filesystem::is_directory(file, ignored)) {
        return BadInput(
            fmt::format("--{} {}: is a directory (expected a file)", output.name, file));
      }
      before.push_back(file);
    }
  }
  return {};
}

}  // namespace dslide
