// What commands check of the files that they are given.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// The files that a data path names: itself, or those of "X.npz+V.npy,Y.npz".
std::vector<std::string> FilesOf(const std::string& path);

// The path of an input that a user names, where - is standard input: /dev/stdin. An error
// (kBadInput) if that is a terminal.
Result<std::string> InputPath(const std::string& path);

// Where a command prints what it has to say: standard output, or standard error if one of its
// outputs goes to standard output.
std::FILE* MessagesBeside(const std::vector<std::string>& outputs);

// An option that names outputs, and its value.
struct OutputOption {
  std::string name;
  std::string path;
};

// Refuses outputs that are an input, another output, a directory, or in a folder that cannot be
// written. Paths may be empty. Errors
// (kBadInput) name the option.
Status CheckOutputs(const std::vector<std::string>& inputs,
                    const std::vector<OutputOption>& outputs);

}  // namespace dslide
