// Facts of the training data by which a configuration is derived.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "common/data/dataset.h"

namespace dslide {

// `trained`: how many of the samples are trained. Counts the labels of all samples.
DataFacts DataFactsOf(const Dataset& train, uint64_t trained);

}  // namespace dslide
