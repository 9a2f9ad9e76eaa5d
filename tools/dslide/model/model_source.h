// Where a Model comes from: a model file, or a checkpoint, of which one is made in memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/model/model.h"
#include "common/model/model_file.h"
#include "tools/dslide/model/format_options.h"

namespace dslide {

struct ModelSourceOptions {
  bool int8_only = false;  // of a model that is made
  bool index = true;       // false: a model that is made has none
  // Samples that the index is measured on; empty: those of the run's train.test, else train.data.
  std::string data;
  NamedFormat format;     // of `data`
  bool has_data = false;  // the command has --data, which a line may tell people to use
  ModelMemory memory = ModelMemory::kMapped;  // of a model file
  // Told what is done, a line each.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// `path`: a model file, a checkpoint, a directory of checkpoints or a run directory. Errors name
// it.
Result<std::shared_ptr<const Model>> LoadModel(const std::string& path,
                                               const ModelSourceOptions& options);

}  // namespace dslide
