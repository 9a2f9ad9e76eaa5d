// Where a served model comes from, and whether there is a newer one now.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/error.h"
#include "tools/dslide/model/model_source.h"

namespace dslide {

// One thread uses an object.
class ServedSource {
 public:
  using Loader = std::function<Result<std::shared_ptr<const Model>>(const std::string&,
                                                                    const ModelSourceOptions&)>;
  ServedSource(std::string path, ModelSourceOptions options, Loader loader = LoadModel)
      : path_(std::move(path)), options_(std::move(options)), loader_(std::move(loader)) {
    options_.memory = ModelMemory::kCopied;
  }

  // The same model is tried again so long after it could not be loaded.
  static constexpr int64_t kRetryMs = 60'000;

  // The model, all of it in memory: the first request is as fast as the others, and a file that is
  // overwritten does no harm. An exception, of no memory say, is an error (kFailed) as others are.
  Result<std::shared_ptr<const Model>> Load(int64_t now_ms);
  // Whether the file was replaced, or the run has another newest checkpoint or another ranking,
  // since the last Load(); or whether that failed, and is to be tried again.
  bool IsToLoad(int64_t now_ms) const;

 private:
  std::string Identity() const;

  std::string path_;
  ModelSourceOptions options_;
  Loader loader_;
  std::string seen_;                  // Identity() at the last Load()
  std::optional<int64_t> failed_ms_;  // of the last Load(), if it failed
};

}  // namespace dslide
