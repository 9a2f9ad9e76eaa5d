// Reading a whole data file at the start of a process.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/data/dataset.h"

namespace dslide {

// ReadXcFile(), with a line in the log that says what the file holds and how long it took.
Result<Dataset> LoadData(const std::string& path);

}  // namespace dslide
