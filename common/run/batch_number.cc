#include "common/run/batch_number.h"

#include <fmt/core.h>

namespace dslide {

std::string NameOf(const BatchId& batch) {
  return fmt::format("batch {}.{}.{}", batch.epoch, batch.unit, batch.index);
}

}  // namespace dslide
