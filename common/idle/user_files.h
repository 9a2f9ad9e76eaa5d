// Where the lent workers of a user leave what other processes of that user read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"

namespace dslide {

// For as long as the machine runs: $XDG_RUNTIME_DIR/dslide, /run/user/UID/dslide or
// /tmp/dslide-UID, with mode 0700. Errors (kFailed) name the directory: one that belongs to
// somebody else is not used.
Result<std::string> RuntimeDirectory();

// For good: $XDG_STATE_HOME/dslide or ~/.local/state/dslide.
Result<std::string> StateDirectory();

// CPU seconds that a process has used, and when it started (ticks after the machine's start);
// nullopt: there is none.
struct ProcessTimes {
  double cpu_s = 0;
  uint64_t started = 0;
};
std::optional<ProcessTimes> TimesOf(int pid);

}  // namespace dslide
