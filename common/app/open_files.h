// The limit of open files and sockets of this process.
#pragma once

#include "common/base/error.h"

namespace dslide {

// With fewer, threads and sockets cannot be created, and libraries wait for them without an error.
constexpr unsigned kMinOpenFiles = 128;

// Raises this process's limit of open files to its hard limit. Errors (kBadInput): that is below
// kMinOpenFiles.
Status RaiseOpenFileLimit();

}  // namespace dslide
