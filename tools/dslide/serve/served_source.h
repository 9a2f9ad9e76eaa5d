// Where a served model comes from, and whether there is a newer one now.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "tools/dslide/model/model_source.h"

namespace dslide {

// One thread uses an object.
class ServedSource {
 public:
  ServedSource(std::string path, ModelSourceOptions options)
      : path_(std::move(path)), options_(std::move(options)) {
    options_.memory = ModelMemory::kCopied;
  }

  // The same model is tried again so long after it could not be loaded.
  static constexpr int64_t kRetryMs = 60'000;

  // The model, all of it in memory: the first request is as fast as the others, and a file that is
  // overwritten does no harm.
  Result<std::shared_ptr<const Model>> Load(int64_t now_ms);
  // Whether the file was replaced, or the run has another newest checkpoint, since the last Load();
  // or whether that failed, and is to be tried again.
  bool IsToLoad(int64_t now_ms) const;

 private:
  std::string Identity() const;

  std::string path_;
  ModelSourceOptions options_;
  std::string seen_;                  // Identity() at the last Load()
  std::optional<int64_t> failed_ms_;  // of the last Load(), if it failed
};

}  // namespace dslide
