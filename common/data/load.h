// Reading a whole data file at the start of a process.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/data/dataset.h"

namespace dslide {

// ReadXcFile(), with a log line about the file's contents and the time it took.
Result<Dataset> LoadData(const std::string& path);

}  // namespace dslide
