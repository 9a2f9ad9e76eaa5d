// A configuration that means the same files in every working directory.
#pragma once

#include "common/config/config.h"

namespace dslide {

// Makes the files and directories absolute: train.data, train.test, train.dev, train.label_names
// and checkpoint.directory. "-" and empty values stay, and names of matrices ("X.npz,Y.npz") that
// would no longer be read as such.
void MakePathsAbsolute(Config* config);

}  // namespace dslide
