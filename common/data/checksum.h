// What tells two data sets apart: two machines that mean to work on the same file compare it.
#pragma once

#include <cstdint>

#include "common/data/dataset.h"

namespace dslide {

// Of the samples as they were read, in their order: the same for a file and its compressed form.
// The upper half is the CRC-32 of the labels, the lower one that of the features and values; each
// sample counts with the number of its ids. It finds accidents and old versions; it is no
// protection against somebody who makes a file to fit.
uint64_t Checksum(const Dataset& data);

}  // namespace dslide
