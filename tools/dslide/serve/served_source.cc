#include "tools/dslide/serve/served_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/checkpoint/manifest.h"

namespace dslide {
namespace {

constexpr size_t kPage = 4096;

template <typename T>
uint64_t Touch(std::span<const T> array) {
  uint64_t sum = 0;
  for (size_t i = 0; i < array.size(); i += kPage / sizeof(T)) {
    sum += static_cast<uint64_t>(*static_cast<const volatile T*>(&array[i]));
  }
  return sum;
}

}  // namespace

// Empty: nothing is there.
std::string ServedSource::Identity() const {
  struct stat status = {};
  if (stat(path_.c_str(), &status) != 0) return "";
  if (S_ISDIR(status.st_mode)) {
    const Result<std::string> checkpoint = FindCheckpoint(path_);
    return checkpoint.ok() ? *checkpoint : "";
  }
  return fmt::format("{} {} {}.{:09}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

Result<std::shared_ptr<const Model>> ServedSource::Load() {
  loaded_ = Identity();
  Result<std::shared_ptr<const Model>> model = LoadModel(path_, options_);
  if (model.ok()) {
    const ModelArrays& arrays = (*model)->arrays();
    Touch(arrays.rows);
    Touch(arrays.input);
    Touch(arrays.weights);
  }
  return model;
}

bool ServedSource::HasChanged() const {
  const std::string now = Identity();
  return !now.empty() && now != loaded_;
}

}  // namespace dslide
