#include "common/app/config_paths.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "common/data/numbers/matrix_reader.h"

namespace dslide {
namespace {

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string AbsoluteData(const std::string& path) {
  if (path.empty() || path == "-") return path;
  const auto matrices = MatrixPathsOf(path);
  if (!matrices) return Absolute(path);
  std::string all;
  for (const std::string& features : matrices->features) {
    all += (all.empty() ? "" : "+") + Absolute(features);
  }
  if (!matrices->labels.empty()) all += "," + Absolute(matrices->labels);
  if (!matrices->weights.empty()) all += "," + Absolute(matrices->weights);
  const auto read = MatrixPathsOf(all);
  const bool same = read && read->features.size() == matrices->features.size() &&
                    read->labels.empty() == matrices->labels.empty() &&
                    read->weights.empty() == matrices->weights.empty();
  return same ? all : path;
}

}  // namespace

void MakePathsAbsolute(Config* config) {
  for (std::string* data : {&config->train.data, &config->train.test, &config->train.dev}) {
    *data = AbsoluteData(*data);
  }
  for (std::string* path :
       {&config->train.label_names, &config->labels.vocabulary, &config->checkpoint.directory}) {
    if (!path->empty()) *path = Absolute(*path);
  }
}

}  // namespace dslide
