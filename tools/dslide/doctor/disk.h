// A directory that checkpoints go to: whether it can be written, how much, and how fast.
#pragma once

#include <cstdint>
#include <string>

#include "tools/dslide/doctor/finding.h"

namespace dslide {

// Writes up to 32 MiB into a file there and removes it, for half a second at most. The directory
// need not exist: then the one above that does is looked at.
void CheckDisk(const std::string& directory, Findings* findings);

}  // namespace dslide
