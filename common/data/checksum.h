// A checksum of a data set, by which two machines check that they work on the same data.
#pragma once

#include <cstdint>

#include "common/data/dataset.h"

namespace dslide {

// Covers the samples as read, in their order: a file and its compressed form have the same
// checksum. The upper half is the CRC-32 of the labels, the lower half that of the features and
// values; both include each sample's number of ids. If some sample has another weight than 1, each
// sample's weight is behind its values. Of samples that are drawn the lower half covers the tokens,
// the upper half the rules. It detects accidents and old versions, not
// forgery.
uint64_t Checksum(const Dataset& data);

}  // namespace dslide
