// What commands check of the files that they are given.
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

// Refuses outputs that are an input, another output, or a directory. Paths may be empty. Errors
// (kBadInput) name the option.
Status CheckOutputs(const std::vector<std::string>& inputs,
                    const std::vector<OutputOption>& outputs);

}  // namespace dslide
