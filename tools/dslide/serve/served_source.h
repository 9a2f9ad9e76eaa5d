// Where a served model comes from, and whether there is a newer one now.
#pragma once

#include <memory>
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

  // The model, all of it in memory: the first request is as fast as the others, and a file that is
  // overwritten does no harm.
  Result<std::shared_ptr<const Model>> Load();
  // Whether the file was replaced, or the run has a newer checkpoint, since the last Load().
  bool HasChanged() const;

 private:
  std::string Identity() const;

  std::string path_;
  ModelSourceOptions options_;
  std::string loaded_;  // Identity() when it was loaded
};

}  // namespace dslide
