// The directory that --run-dir names.
#pragma once

#include <string>

#include "common/base/error.h"

namespace dslide {

// Refuses a run directory whose own directory does not exist: a mistyped path would otherwise be
// made. A directory "runs" may be missing, as it is in a new clone. Call it before anything is
// made.
Status CheckRunDirectory(const std::string& path);

}  // namespace dslide
