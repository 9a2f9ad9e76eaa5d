// What the data commands check of the files that they are given.
#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// The files that a data path names: itself, or those of "X.npz+V.npy,Y.npz".
std::vector<std::string> FilesOf(const std::string& path);

// Whether the path is a pipe, or something else whose content is gone once it was read.
bool IsReadOnce(const std::string& path);

// An option that names outputs, and its value.
struct OutputOption {
  std::string name;
  std::string path;
};

// Refuses outputs that are the input, another output, or a directory. Errors (kBadInput) name the
// option.
Status CheckOutputs(const std::string& input, const std::vector<OutputOption>& outputs);

}  // namespace dslide
