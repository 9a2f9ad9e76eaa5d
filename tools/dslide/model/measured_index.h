// The index of a model that is made of a checkpoint, as samples of its run need it.
#pragma once

#include <memory>

#include "common/base/error.h"
#include "common/model/model.h"
#include "tools/dslide/model/model_source.h"

namespace dslide {

// The model with an index that samples of options.data were measured on, or of the run's
// train.test, else train.data; without one where there are no samples, which options.say is told.
// Error: options.data is of no use.
Result<std::shared_ptr<const Model>> WithIndex(std::shared_ptr<const Model> model,
                                               const ModelSourceOptions& options);

}  // namespace dslide
