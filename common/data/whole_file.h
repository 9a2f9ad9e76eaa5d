// Files that are read or written as a whole.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

// Errors (kBadInput) name the file.
Result<std::string> ReadWholeFile(const std::string& path);

// Writes a file that has its name once it is complete and on the disk (OutputFile): a reader finds
// the old file or the new one, also after the machine has lost power. Errors (kFailed) name the
// file.
Status WriteWholeFile(const std::string& path, std::string_view bytes);
// The same for contents that lie in parts.
Status WriteWholeFile(const std::string& path, std::span<const std::string_view> parts);

// The same for a file that only its owner may read.
Status WriteSecretFile(const std::string& path, std::string_view bytes);

// Syncs what a directory lists. Errors (kFailed) name it.
Status SyncDirectory(const std::string& path);

}  // namespace dslide
