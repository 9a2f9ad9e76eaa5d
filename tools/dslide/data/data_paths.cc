#include "tools/dslide/data/data_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/data/numbers/number_file.h"
#include "common/data/output_file.h"

namespace dslide {

std::vector<std::string> FilesOf(const std::string& path) {
  const auto matrices = MatrixPathsOf(path);
  if (!matrices) return {path};
  std::vector<std::string> files = matrices->features;
  if (!matrices->labels.empty()) files.push_back(matrices->labels);
  if (!matrices->weights.empty()) files.push_back(matrices->weights);
  return files;
}

Result<std::string> InputPath(const std::string& path) {
  if (path != "-") return path;
  if (isatty(STDIN_FILENO) == 1) {
    return BadInput("-: standard input is a terminal; pipe a file to it, or name one");
  }
  return std::string("/dev/stdin");
}

std::FILE* MessagesBeside(const std::vector<std::string>& outputs) {
  return std::ranges::any_of(outputs, IsStandardOutput) ? stderr : stdout;
}

Status CheckOutputs(const std::vector<std::string>& inputs,
                    const std::vector<OutputOption>& outputs) {
  std::vector<std::string> read;
  for (const std::string& input : inputs) {
    for (const std::string& file : FilesOf(input)) read.push_back(file);
  }
  std::vector<std::string> written;
  for (const OutputOption& output : outputs) {
    if (output.path.empty()) continue;  // nothing is written
    for (const std::string& name : FilesOf(output.path)) {
      const std::string file = IsStandardOutput(name) ? "/dev/stdout" : name;
      const auto is_file = [&file](const std::string& other) {
        return AreOneFile(file, other) || (IsStandardOutput(file) && file == other);
      };
      const auto refused = [&](const char* why) {
        return BadInput(fmt::format("--{} {}: {}", output.name, name, why));
      };
      if (std::ranges::any_of(read, is_file)) return refused("is the input; name another file");
      if (std::ranges::any_of(written, is_file)) {
        return refused("would be written twice; name another file");
      }
      std::error_code ignored;
      if (std::filesystem::is_directory(file, ignored)) {
        return refused("is a directory (expected a file)");
      }
      const std::filesystem::path folder = std::filesystem::absolute(file, ignored).parent_path();
      if (!IsWrittenInPlace(file) && access(folder.c_str(), W_OK | X_OK) != 0) {
        return BadInput(fmt::format("{}: cannot create: {}", name, std::strerror(errno)));
      }
      written.push_back(file);
    }
  }
  return {};
}

}  // namespace dslide
